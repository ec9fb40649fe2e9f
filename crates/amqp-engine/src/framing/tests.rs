use amqp_codec::frame::{FrameKind, write_frame};
use proptest::prelude::*;

use super::*;

/// Frames of the given body lengths, with bodies that tell them apart.
fn frames(lens: &[usize]) -> (Bytes, Vec<Bytes>) {
    let mut wire = BytesMut::new();
    let mut bodies = Vec::new();
    for (i, &len) in lens.iter().enumerate() {
        let body = vec![u8::try_from(i % 256).unwrap(); len];
        write_frame(&mut wire, FrameKind::Amqp, 0, |out| out.extend_from_slice(&body));
        bodies.push(Bytes::from(body));
    }
    (wire.freeze(), bodies)
}

fn drain(reader: &mut FrameReader, limit: u32) -> Vec<Result<Bytes, FrameError>> {
    let next = || reader.next_frame(limit).map(|frame| frame.map(|(_, body)| body));
    std::iter::from_fn(next).take(100).collect()
}

#[test]
fn a_whole_frame_is_a_slice_of_the_input() {
    let (wire, _) = frames(&[100]);
    let mut reader = FrameReader::default();
    reader.push(wire.clone());
    let (_, body) = reader.next_frame(512).unwrap().unwrap();
    assert_eq!(body.as_ptr(), wire[8..].as_ptr());
}

#[test]
fn half_a_frame_does_not_keep_the_input_alive() {
    let (wire, _) = frames(&[100, 100]);
    let mut reader = FrameReader::default();
    let input = wire.slice(..150);
    drop(wire);
    reader.push(input.clone());
    assert_eq!(drain(&mut reader, 512).len(), 1);
    assert!(input.is_unique(), "the reader still holds the input");
    assert_eq!(reader.len(), 150 - 108);
}

#[test]
fn the_front_of_a_frame_gets_room_for_all_of_it_only_when_much_of_it_is_here() {
    let (bytes, _) = frames(&[40_000]);
    for (here, room) in [(9, 100), (9_000, 10_000), (11_000, 40_500), (39_000, 40_500)] {
        let mut reader = FrameReader::default();
        reader.push(bytes.slice(..here));
        assert!(drain(&mut reader, 65_536).is_empty());
        let capacity = reader.tail.capacity();
        assert!(capacity <= room, "{capacity} bytes for {here}");
        assert_eq!(capacity >= 40_000, here >= 11_000, "{here} bytes are here");
    }
}

#[test]
fn an_extended_header_is_skipped() {
    let mut reader = FrameReader::default();
    reader.push(Bytes::from_static(&[0, 0, 0, 14, 3, 0, 0, 5, 9, 9, 9, 9, 7, 7]));
    let (header, body) = reader.next_frame(512).unwrap().unwrap();
    assert_eq!((header.channel, &body[..]), (5, &[7, 7][..]));
}

#[test]
fn sizes_are_checked_before_their_bytes_arrive() {
    let cases: [(&[u8], bool); 7] = [
        // the first eight bytes, whether they start a frame of at most 512 bytes
        (&[0, 0, 0, 8, 2, 0, 0, 0], true),
        (&[0, 0, 2, 0, 2, 0, 0, 0], true),
        (&[0, 0, 2, 1, 2, 0, 0, 0], false),
        (&[0, 0, 0, 7, 2, 0, 0, 0], false),
        (&[0, 0, 0, 0, 2, 0, 0, 0], false),
        (&[0, 0, 0, 8, 1, 0, 0, 0], false),
        (&[0, 0, 0, 8, 3, 0, 0, 0], false),
    ];
    for case @ (bytes, good) in cases {
        let mut reader = FrameReader::default();
        reader.push(Bytes::from_static(bytes));
        let refused = matches!(reader.next_frame(512), Some(Err(_)));
        assert_eq!(refused, !good, "{case:?}");
        // The same when the bytes come one by one.
        let mut reader = FrameReader::default();
        let mut refused = false;
        for byte in bytes {
            reader.push(Bytes::copy_from_slice(&[*byte]));
            refused |= matches!(reader.next_frame(512), Some(Err(_)));
        }
        assert_eq!(refused, !good, "{case:?} byte by byte");
    }
}

#[test]
fn a_header_is_taken_and_the_frame_behind_it_kept() {
    let (wire, bodies) = frames(&[3]);
    let mut reader = FrameReader::default();
    reader.push(Bytes::from([b"AMQP\0\x01\0\0", &wire[..]].concat()));
    assert_eq!(reader.next_header(), Some(*b"AMQP\0\x01\0\0"));
    assert_eq!(drain(&mut reader, 512), [Ok(bodies[0].clone())]);
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        lens in proptest::collection::vec(0usize..300, 1..8),
        cuts in proptest::collection::vec(1usize..200, 0..30),
        poll_late: bool,
    ) {
        let (wire, bodies) = frames(&lens);
        let mut reader = FrameReader::default();
        let mut rest = wire;
        let mut got = Vec::new();
        for cut in cuts {
            reader.push(rest.split_to(cut.min(rest.len())));
            if !poll_late {
                got.extend(drain(&mut reader, 512));
            }
        }
        reader.push(rest);
        got.extend(drain(&mut reader, 512));
        let expected: Vec<_> = bodies.into_iter().map(Ok).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(reader.len(), 0);
    }

    #[test]
    fn any_bytes_make_frames_or_an_error(bytes: Vec<u8>, cut in 0usize..64) {
        let mut whole = FrameReader::default();
        whole.push(Bytes::from(bytes.clone()));
        let expected = drain(&mut whole, 512);
        let mut cut_up = FrameReader::default();
        let mut got = Vec::new();
        for piece in bytes.chunks(cut.max(1)) {
            cut_up.push(Bytes::copy_from_slice(piece));
            got.extend(drain(&mut cut_up, 512));
            if got.iter().any(Result::is_err) {
                break;
            }
        }
        let until = |list: &[Result<Bytes, FrameError>]| {
            list.iter().take_while(|frame| frame.is_ok()).cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(until(&got), until(&expected));
    }
}
