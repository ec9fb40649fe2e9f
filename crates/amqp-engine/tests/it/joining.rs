//! Large deliveries of several frames: joined where they were read, and the same wherever that was.

use amqp_codec::performative::Transfer;
use amqp_codec::types::Role;
use amqp_engine::Event;
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use crate::pair::{Pair, amqp, amqp_with, flow, plain, transfer};

/// The engine receives on links with the handles 0 and 1.
fn receiving() -> Pair {
    let mut pair = Pair::begun(plain());
    for (name, handle) in [("one", 0), ("other", 1)] {
        let link = pair.attach(name, handle, Role::Sender);
        pair.engine.grant_credit(link, 1_000);
    }
    pair.read();
    pair
}

/// The frames of a delivery whose payloads have these lengths, and its whole payload.
fn delivery(handle: u32, id: u32, lengths: &[usize]) -> (Vec<Vec<u8>>, Bytes) {
    let whole: Vec<u8> =
        (0..lengths.iter().sum()).map(|at: usize| (at.to_le_bytes()[0]) ^ id.to_le_bytes()[0]).collect();
    let mut rest = &whole[..];
    let last = lengths.len() - 1;
    let frame = |(number, length): (usize, &usize)| {
        let (payload, behind) = rest.split_at(*length);
        rest = behind;
        amqp_with(0, Transfer { more: number < last, ..transfer(handle, id) }, payload)
    };
    (lengths.iter().enumerate().map(frame).collect(), Bytes::from(whole.clone()))
}

fn received(pair: &mut Pair) -> Vec<Bytes> {
    let payload = |event| match event {
        Event::Transfer(delivery) => delivery.payload,
        other => panic!("{other:?}"),
    };
    pair.events.drain(..).map(payload).collect()
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![2 => 0usize..100, 2 => 16_300usize..16_500, 1 => 30_000usize..50_000];
    proptest::collection::vec(length, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn deliveries_are_whole_wherever_their_frames_were_read(
        deliveries in proptest::collection::vec((lengths(), lengths(), any::<bool>()), 1..4),
        cuts in proptest::collection::vec((prop_oneof![1usize..100, 1usize..70_000], any::<bool>()), 0..30),
    ) {
        let (mut wire, mut expected) = (Vec::new(), Vec::new());
        for (number, (one, other, with_flow)) in (0u32..).zip(&deliveries) {
            let [one, other] = [delivery(0, 2 * number, one), delivery(1, 2 * number + 1, other)];
            // The frames of both links in turn, and perhaps others between.
            let turns = one.0.len().max(other.0.len());
            for turn in 0..turns {
                for (frames, whole) in [&one, &other] {
                    wire.extend(frames.get(turn).into_iter().flatten());
                    if turn + 1 == frames.len() {
                        expected.push(whole.clone());
                    }
                }
                if *with_flow {
                    wire.extend(amqp(0, flow()));
                }
            }
        }
        let mut pair = receiving();
        let mut rest = BytesMut::from(&wire[..]);
        for (cut, compaction) in cuts {
            let piece = rest.split_to(cut.min(rest.len()));
            pair.engine.handle_input(pair.now, if compaction { BytesMut::from(&piece[..]) } else { piece });
            pair.poll();
        }
        pair.engine.handle_input(pair.now, rest);
        pair.poll();
        prop_assert!(received(&mut pair) == expected);
    }
}

#[test]
fn a_body_that_fills_a_frame_stays_where_it_was_read() {
    let (frames, whole) = delivery(0, 0, &[60_000, 200, 100]);
    let mut memory = BytesMut::with_capacity(256 << 10);
    memory.extend_from_slice(&frames.concat());
    let place = memory[frames[0].len() - 60_000..].as_ptr();
    let mut pair = receiving();
    // Cut in the midst of the first frame, and between the others.
    for length in [30_000, frames[0].len() - 30_000, frames[1].len(), frames[2].len()] {
        pair.engine.handle_input(pair.now, memory.split_to(length));
        pair.poll();
    }
    let payloads = received(&mut pair);
    assert_eq!(payloads, [whole]);
    assert_eq!(payloads[0].as_ptr(), place);
}

#[test]
fn unfinished_deliveries_keep_the_memory_of_one_read_at_most() {
    let mut pair = receiving();
    let mut memories = [0, 1].map(|handle| {
        let mut memory = BytesMut::with_capacity(256 << 10);
        memory.extend_from_slice(&delivery(handle, handle, &[20_000, 1]).0[0]);
        pair.engine.handle_input(pair.now, memory.split());
        pair.poll();
        memory
    });
    let is_free = |memory: &mut BytesMut| memory.try_reclaim(256 << 10);
    assert_eq!([0, 1].map(|number| is_free(&mut memories[number])), [false, true]);
    for handle in [0, 1] {
        let last = delivery(handle, handle, &[20_000, 1]).0.remove(1);
        pair.engine.handle_input(pair.now, BytesMut::from(&last[..]));
        pair.poll();
    }
    assert_eq!(received(&mut pair), [0, 1].map(|handle| delivery(handle, handle, &[20_000, 1]).1));
    assert!(is_free(&mut memories[0]));
}
