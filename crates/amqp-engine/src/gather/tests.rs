use proptest::prelude::*;

use super::*;

/// Pieces of output: copied, or left where they lie.
fn pieces() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let piece = (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20));
    proptest::collection::vec(piece, 0..20)
}

fn filled(pieces: &[(bool, Vec<u8>)]) -> (GatherBuffer, Vec<u8>) {
    let (mut buffer, mut expected) = (GatherBuffer::new(BytesMut::new(), 1), Vec::new());
    for (placed, bytes) in pieces {
        match placed {
            true => buffer.place(Bytes::copy_from_slice(bytes)),
            false => buffer.put(bytes),
        }
        expected.extend_from_slice(bytes);
    }
    (buffer, expected)
}

/// Bytes that one gathering write gets, with room for so many parts and so many bytes.
fn write(buffer: &mut GatherBuffer, parts: usize, bytes: usize) -> Vec<u8> {
    let mut slices = vec![IoSlice::new(&[]); parts];
    let count = buffer.chunks_vectored(&mut slices);
    let mut offered = slices[..count].iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>();
    offered.truncate(bytes);
    buffer.advance(offered.len());
    offered
}

proptest! {
    #[test]
    fn the_buffer_gives_the_bytes_that_were_put_in_however_they_are_taken(
        pieces in pieces(),
        takes in proptest::collection::vec((1usize..6, 1usize..30, 0u8..3), 1..40),
    ) {
        let (mut buffer, expected) = filled(&pieces);
        prop_assert_eq!(buffer.len(), expected.len());
        prop_assert_eq!(buffer.is_contiguous(), pieces.iter().all(|(placed, bytes)| !placed || bytes.is_empty()));
        let mut taken = Vec::new();
        for (parts, bytes, way) in takes.iter().cycle() {
            if buffer.is_empty() {
                break;
            }
            let before = taken.len();
            match way {
                0 => taken.extend(write(&mut buffer, *parts, *bytes)),
                1 => {
                    let count = buffer.chunk().len().min(*bytes);
                    taken.extend_from_slice(&buffer.chunk()[..count]);
                    buffer.advance(count);
                }
                _ => {
                    drop(buffer.move_encoded());
                    taken.extend(write(&mut buffer, *parts, *bytes));
                }
            }
            prop_assert!(taken.len() > before, "it is offered something while something is left");
            prop_assert_eq!(buffer.len(), expected.len() - taken.len());
        }
        prop_assert_eq!(taken, expected);
        prop_assert!(buffer.is_contiguous(), "no payload is kept longer than its bytes");
    }

    #[test]
    fn all_of_it_is_offered_where_there_is_room(pieces in pieces()) {
        let (mut buffer, expected) = filled(&pieces);
        let parts = 2 * pieces.len() + 1;
        prop_assert_eq!(write(&mut buffer, parts, usize::MAX), expected);
    }
}
