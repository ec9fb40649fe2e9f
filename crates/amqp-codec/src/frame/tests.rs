use proptest::prelude::*;

use super::*;

const LIMIT: u32 = 4096;

fn head(size: u32, doff: u8, kind: u8, channel: u16) -> [u8; 8] {
    let [a, b, c, d] = size.to_be_bytes();
    let [high, low] = channel.to_be_bytes();
    [a, b, c, d, doff, kind, high, low]
}

#[test]
fn frames_shorter_than_their_header_are_refused() {
    for size in 0..8 {
        let result = FrameHeader::parse(&head(size, 2, 0, 0), LIMIT);
        assert_eq!(result, Err(FrameError::TooSmall { size }));
    }
}

#[test]
fn frames_are_checked_against_every_rule() {
    let cases = [
        // size, doff, kind, expected
        (8, 2, 0, Ok(())),
        (LIMIT, 2, 0, Ok(())),
        (LIMIT + 1, 2, 0, Err(FrameError::TooLarge { size: LIMIT + 1, limit: LIMIT })),
        (u32::MAX, 2, 0, Err(FrameError::TooLarge { size: u32::MAX, limit: LIMIT })),
        (8, 0, 0, Err(FrameError::BadOffset { doff: 0, size: 8 })),
        (8, 1, 0, Err(FrameError::BadOffset { doff: 1, size: 8 })),
        (8, 3, 0, Err(FrameError::BadOffset { doff: 3, size: 8 })),
        (12, 3, 0, Ok(())),
        (1019, 255, 0, Err(FrameError::BadOffset { doff: 255, size: 1019 })),
        (1020, 255, 0, Ok(())),
        (8, 2, 1, Ok(())),
        (8, 2, 2, Err(FrameError::UnknownKind(2))),
    ];
    for case @ (size, doff, kind, expected) in cases {
        let result = FrameHeader::parse(&head(size, doff, kind, 7), LIMIT).map(|_| ());
        assert_eq!(result, expected, "{case:?}");
    }
}

#[test]
fn the_extended_header_is_part_of_the_offset() {
    let header = FrameHeader::parse(&head(100, 5, 0, 0x0102), LIMIT).unwrap();
    assert_eq!(header.body_offset(), 20);
    assert_eq!(header.channel, 0x0102);
    assert_eq!(header.kind, FrameKind::Amqp);
}

#[test]
fn the_channel_of_a_sasl_frame_is_ignored() {
    let header = FrameHeader::parse(&head(8, 2, 1, 0xffff), LIMIT).unwrap();
    assert_eq!((header.kind, header.channel), (FrameKind::Sasl, 0));
}

#[test]
fn protocol_headers_map_to_their_bytes_and_back() {
    for header in [ProtocolHeader::Amqp, ProtocolHeader::Tls, ProtocolHeader::Sasl] {
        assert_eq!(ProtocolHeader::parse(header.to_bytes()), Ok(header));
    }
    for wrong in [*b"AMQP\x01\x01\0\0", *b"AMQP\0\0\x09\x01", *b"AMQP\0\x01\0\x01", *b"GET / HT"] {
        assert_eq!(ProtocolHeader::parse(wrong), Err(UnsupportedHeader(wrong)));
    }
}

#[test]
fn a_written_frame_carries_its_size() {
    let mut out = BytesMut::from(&b"frames before"[..]);
    let start = out.len();
    write_frame(&mut out, FrameKind::Amqp, 0x0203, |out| out.put_slice(b"body"));
    assert_eq!(&out[start..], b"\0\0\0\x0c\x02\0\x02\x03body");
    let mut out = BytesMut::new();
    write_frame(&mut out, FrameKind::Sasl, 0, |_| {});
    write_heartbeat(&mut out);
    assert_eq!(&out[..], b"\0\0\0\x08\x02\x01\0\0\0\0\0\x08\x02\0\0\0");
}

proptest! {
    #[test]
    fn a_written_frame_reads_back(channel: u16, body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut out = BytesMut::new();
        write_frame(&mut out, FrameKind::Amqp, channel, |out| out.put_slice(&body));
        let header = FrameHeader::parse(out.first_chunk().unwrap(), LIMIT).unwrap();
        prop_assert_eq!(header.size as usize, out.len());
        prop_assert_eq!(header.channel, channel);
        prop_assert_eq!(&out[header.body_offset()..], &body[..]);
    }

    #[test]
    fn an_accepted_frame_is_within_its_limits(first: [u8; 8], limit: u32) {
        if let Ok(header) = FrameHeader::parse(&first, limit) {
            prop_assert!(header.size >= 8 && header.size <= limit);
            prop_assert!(header.body_offset() >= 8 && header.body_offset() <= header.size as usize);
        }
    }
}
