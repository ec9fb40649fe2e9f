//! Output with large payloads left where they lie has the same bytes as output that is copied.

use amqp_codec::performative::{DeliveryState, Open};
use amqp_codec::types::{DeliveryTag, Role};
use amqp_engine::{GatherBuffer, LinkKey, OutgoingDelivery};
use bytes::{Buf as _, Bytes, BytesMut};
use proptest::prelude::*;

use crate::pair::{Pair, amqp, begin, credit, plain};

fn a_delivery() -> impl Strategy<Value = OutgoingDelivery> {
    let length = prop_oneof![0usize..50, 0usize..3_000];
    (any::<u8>(), 0usize..120, length, any::<bool>(), any::<bool>()).prop_map(
        |(tag, sections, bare, settled, stated)| {
            let bytes: Vec<u8> = (0..sections + bare).map(|at| tag ^ at.to_le_bytes()[0]).collect();
            let mut bare = Bytes::from(bytes);
            let sections = bare.split_to(sections);
            OutgoingDelivery {
                settled,
                state: stated.then_some(DeliveryState::Transactional {
                    txn_id: (&[tag][..]).into(),
                    outcome: Some(Box::new(DeliveryState::Accepted)),
                }),
                ..OutgoingDelivery::new(DeliveryTag::from([tag; 16]), sections, bare)
            }
        },
    )
}

/// A client that takes frames of this size, on whose link the engine sends.
fn sending(max_frame_size: u32) -> (Pair, LinkKey) {
    let mut pair = Pair::open_as(plain(), Open { max_frame_size, ..Open::new("client") });
    pair.feed(&amqp(0, amqp_codec::performative::Begin { incoming_window: u32::MAX >> 1, ..begin() }));
    let link = pair.attach("link", 0, Role::Receiver);
    pair.feed(&amqp(
        0,
        amqp_codec::performative::Flow { incoming_window: u32::MAX >> 1, ..credit(0, 0, 100) },
    ));
    pair.read();
    (pair, link)
}

proptest! {
    #[test]
    fn gathered_output_has_the_bytes_of_copied_output(
        deliveries in proptest::collection::vec(a_delivery(), 1..12),
        max_frame_size in prop_oneof![512u32..2_000, Just(u32::MAX)],
        gather_from in prop_oneof![Just(1usize), 1usize..1_500],
        takes in proptest::collection::vec((1usize..5_000, 1usize..2_000), 1..20),
    ) {
        let (mut copying, one) = sending(max_frame_size);
        let (mut gathering, other) = sending(max_frame_size);
        for delivery in &deliveries {
            copying.engine.send(one, delivery.clone()).unwrap();
            gathering.engine.send(other, delivery.clone()).unwrap();
        }
        let large = deliveries.iter().any(|delivery| delivery.bare.len() >= gather_from.max(1));
        let (mut placed, mut taken) = (false, BytesMut::new());
        let mut out = GatherBuffer::new(BytesMut::new(), gather_from);
        // Polled before all of it is taken, and taken in pieces of any size.
        for (soft_limit, take) in takes.iter().cycle() {
            if !gathering.engine.has_output() && out.is_empty() {
                break;
            }
            gathering.engine.poll_gathered(gathering.now, &mut out, *soft_limit);
            placed |= !out.is_contiguous();
            for _ in 0..3 {
                let count = out.chunk().len().min(*take);
                taken.extend_from_slice(&out.chunk()[..count]);
                out.advance(count);
            }
        }
        prop_assert_eq!(taken.freeze(), copying.read_bytes());
        prop_assert!(placed || !large || max_frame_size < u32::MAX, "what is large is not copied");
    }
}
