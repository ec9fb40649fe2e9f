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
    let input = BytesMut::from(wire);
    let place = input[8..].as_ptr();
    reader.push(input);
    let (_, body) = reader.next_frame(512).unwrap().unwrap();
    assert_eq!(body.as_ptr(), place);
}

/// Memory for reading into, and whether nobody but its owner has any of it.
fn memory() -> BytesMut {
    BytesMut::with_capacity(READ_BYTES)
}

fn is_free(memory: &mut BytesMut) -> bool {
    memory.try_reclaim(READ_BYTES)
}

const READ_BYTES: usize = 100_000;

#[test]
fn half_a_frame_does_not_keep_the_input_alive() {
    for (body, here, stays) in [(100, 42, false), (40_000, STAYS_FROM - 1, false), (40_000, STAYS_FROM, true)]
    {
        let (wire, bodies) = frames(&[100, body]);
        let (mut reader, mut memory) = (FrameReader::default(), memory());
        memory.extend_from_slice(&wire[..108 + here]);
        reader.push(memory.split());
        assert_eq!(drain(&mut reader, 65_536).len(), 1);
        assert_eq!(is_free(&mut memory), !stays, "{here} bytes of the second are here");
        assert_eq!(reader.len(), here);
        // Wherever the rest lies, the frame becomes whole.
        reader.push(BytesMut::from(&wire[108 + here..]));
        assert_eq!(drain(&mut reader, 65_536), [Ok(bodies[1].clone())]);
        assert!(is_free(&mut memory), "it was copied to where its front is no more");
    }
}

#[test]
fn bytes_behind_the_large_front_of_a_frame_in_the_same_memory_are_not_copied() {
    let (wire, bodies) = frames(&[40_000, 10]);
    let (mut reader, mut memory) = (FrameReader::default(), memory());
    memory.extend_from_slice(&wire[..STAYS_FROM]);
    let place = memory[8..].as_ptr();
    let mut read = drain(&mut reader, 65_536);
    for (from, to) in [(STAYS_FROM, 20_000), (20_000, 40_008), (40_008, wire.len())] {
        reader.push(memory.split());
        read.extend(drain(&mut reader, 65_536));
        memory.extend_from_slice(&wire[from..to]);
    }
    reader.push(memory.split());
    read.extend(drain(&mut reader, 65_536));
    let bodies_read: Vec<Bytes> = read.into_iter().map(Result::unwrap).collect();
    assert_eq!(bodies_read, bodies);
    assert_eq!(bodies_read[0].as_ptr(), place);
}

#[test]
fn the_front_of_a_frame_gets_room_for_all_of_it_only_when_much_of_it_is_here() {
    let (bytes, _) = frames(&[40_000]);
    for (here, room) in [(9, 100), (9_000, 10_000), (11_000, 40_500), (STAYS_FROM - 1, 40_500)] {
        let mut reader = FrameReader::default();
        reader.push(BytesMut::from(&bytes[..here]));
        assert!(drain(&mut reader, 65_536).is_empty());
        let capacity = reader.tail.capacity();
        assert!(capacity <= room, "{capacity} bytes for {here}");
        assert_eq!(capacity >= 40_000, here >= 11_000, "{here} bytes are here");
    }
}

#[test]
fn an_extended_header_is_skipped() {
    let mut reader = FrameReader::default();
    reader.push(BytesMut::from(&[0, 0, 0, 14, 3, 0, 0, 5, 9, 9, 9, 9, 7, 7][..]));
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
        reader.push(BytesMut::from(bytes));
        let refused = matches!(reader.next_frame(512), Some(Err(_)));
        assert_eq!(refused, !good, "{case:?}");
        // The same when the bytes come one by one.
        let mut reader = FrameReader::default();
        let mut refused = false;
        for byte in bytes {
            reader.push(BytesMut::from(&[*byte][..]));
            refused |= matches!(reader.next_frame(512), Some(Err(_)));
        }
        assert_eq!(refused, !good, "{case:?} byte by byte");
    }
}

#[test]
fn a_header_is_taken_and_the_frame_behind_it_kept() {
    let (wire, bodies) = frames(&[3]);
    let mut reader = FrameReader::default();
    reader.push(BytesMut::from(&[b"AMQP\0\x01\0\0", &wire[..]].concat()[..]));
    assert_eq!(reader.next_header(), Some(*b"AMQP\0\x01\0\0"));
    assert_eq!(drain(&mut reader, 512), [Ok(bodies[0].clone())]);
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        lens in proptest::collection::vec(prop_oneof![9 => 0usize..300, 1 => 10_000usize..60_000], 1..8),
        cuts in proptest::collection::vec((prop_oneof![4 => 1usize..200, 1 => 1usize..50_000], any::<bool>()), 0..30),
        poll_late: bool,
    ) {
        let (wire, bodies) = frames(&lens);
        let mut reader = FrameReader::default();
        // The input lies in one memory, or each piece of it in another.
        let mut rest = BytesMut::from(&wire[..]);
        let mut got = Vec::new();
        for (cut, compaction) in cuts {
            let piece = rest.split_to(cut.min(rest.len()));
            reader.push(if compaction { BytesMut::from(&piece[..]) } else { piece });
            if !poll_late {
                got.extend(drain(&mut reader, 65_536));
            }
        }
        reader.push(rest);
        got.extend(drain(&mut reader, 65_536));
        let expected: Vec<_> = bodies.into_iter().map(Ok).collect();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(reader.len(), 0);
    }

    #[test]
    fn any_bytes_make_frames_or_an_error(bytes: Vec<u8>, cut in 0usize..64) {
        let mut whole = FrameReader::default();
        whole.push(BytesMut::from(&bytes[..]));
        let expected = drain(&mut whole, 512);
        let mut cut_up = FrameReader::default();
        let mut got = Vec::new();
        for piece in bytes.chunks(cut.max(1)) {
            cut_up.push(BytesMut::from(piece));
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
