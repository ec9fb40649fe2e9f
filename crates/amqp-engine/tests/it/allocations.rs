//! What the engine asks of the allocator for messages that come and go, once its buffers are warm.
//!
//! A read of several frames is one buffer, which its slices share. Sharing it costs one allocation where it was not shared
//! before, however many frames lie in it. So a run of messages is counted twice, short and long: what both cost alike
//! belongs to the read, and nothing is left for a message.

use allocation_counter::measure;
use amqp_codec::performative::{Begin, DeliveryState, Flow};
use amqp_codec::types::{DeliveryTag, Role};
use amqp_engine::{Connection, Event, LinkKey, OutgoingDelivery};
use bytes::{Bytes, BytesMut};

use crate::pair::{Pair, amqp, amqp_with, begin, disposition, plain, transfer};

const LEN: usize = 1_024;
const SHORT: u32 = 16;
/// No more than the engine keeps room for. A longer run of deliveries that wait together makes their queue grow anew,
/// which is given back afterwards.
const LONG: u32 = 256;
/// Allocations of one read, however many messages lie in it.
const PER_READ: u64 = 1;

/// An engine with one link, and where its output goes.
struct Warm {
    pair: Pair,
    link: LinkKey,
    out: BytesMut,
    /// Deliveries so far.
    count: u32,
}

impl Warm {
    /// The peer's role is given.
    fn new(role: Role) -> Self {
        let mut pair = Pair::open(plain());
        let wide = Begin { incoming_window: u32::MAX >> 1, outgoing_window: u32::MAX >> 1, ..begin() };
        pair.feed(&amqp(0, wide));
        pair.read();
        pair.take_events();
        let link = pair.attach("link", 0, role);
        Self { pair, link, out: BytesMut::with_capacity(2 << 20), count: 0 }
    }

    fn output(&mut self) {
        self.out.clear();
        self.pair.engine.poll_output(self.pair.now, &mut self.out, usize::MAX);
    }
}

/// Runs of both lengths, each after runs that warmed everything up.
fn per_run(mut run: impl FnMut(u32) -> u64) -> [u64; 2] {
    [SHORT, LONG].map(|messages| {
        for _ in 0..4 {
            run(LONG);
        }
        run(messages)
    })
}

/// What `work` allocates with the engine.
fn counted(engine: &mut Connection, work: impl FnOnce(&mut Connection)) -> u64 {
    measure(|| work(engine)).count_total
}

#[test]
fn receiving_and_accepting_a_message_allocates_nothing() {
    let mut warm = Warm::new(Role::Sender);
    let payload = [7; LEN];
    let costs = per_run(|messages| {
        let frames: Vec<u8> = (0..messages)
            .flat_map(|n| amqp_with(0, transfer(0, warm.count.wrapping_add(n)), &payload))
            .collect();
        warm.count += messages;
        let input = Bytes::from(frames);
        let (now, link) = (warm.pair.now, warm.link);
        let mut received = 0;
        warm.pair.engine.grant_credit(link, 2 * LONG);
        let taken = counted(&mut warm.pair.engine, |engine| {
            engine.handle_input(now, input);
            while let Some(event) = engine.poll_event() {
                let Event::Transfer(delivery) = event else { panic!("{event:?}") };
                assert_eq!(delivery.payload.len(), LEN);
                engine.settle_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
                received += 1;
            }
        });
        assert_eq!(received, messages);
        taken + measure(|| warm.output()).count_total
    });
    assert!(costs.iter().all(|cost| *cost <= PER_READ), "{SHORT} and {LONG} messages: {costs:?}");
}

#[test]
fn sending_a_message_and_hearing_of_its_settlement_allocates_nothing() {
    let mut warm = Warm::new(Role::Receiver);
    let (sections, bare) = (Bytes::from(vec![1; 100]), Bytes::from(vec![2; LEN - 100]));
    let costs = per_run(|messages| {
        let credit = Flow {
            next_incoming_id: Some(warm.count.wrapping_add(1)),
            incoming_window: u32::MAX >> 1,
            outgoing_window: u32::MAX >> 1,
            handle: Some(0),
            delivery_count: Some(warm.count),
            link_credit: Some(messages),
            ..Flow::default()
        };
        warm.pair.feed(&amqp(0, credit));
        warm.pair.take_events();
        // Delivery-ids begin with 1.
        let (first, last) = (warm.count + 1, warm.count + messages);
        warm.count = last;
        let one_by_one: Vec<u8> =
            (first..=last).flat_map(|id| amqp(0, disposition(Role::Receiver, id, id, true))).collect();
        let (now, link, input) = (warm.pair.now, warm.link, Bytes::from(one_by_one));
        let handed_over = counted(&mut warm.pair.engine, |engine| {
            for n in 0..messages {
                let tag = DeliveryTag::from((u128::from(n)).to_be_bytes());
                let delivery = OutgoingDelivery::new(tag, sections.clone(), bare.clone());
                assert!(engine.send(link, delivery).is_some());
            }
        });
        let written = measure(|| warm.output()).count_total;
        assert!(warm.out.len() > messages as usize * LEN);
        let mut settled = 0;
        let heard = counted(&mut warm.pair.engine, |engine| {
            engine.handle_input(now, input);
            while let Some(event) = engine.poll_event() {
                let Event::Disposition { settled: true, .. } = event else { panic!("{event:?}") };
                settled += 1;
            }
        });
        assert_eq!(settled, messages);
        handed_over + written + heard
    });
    assert!(costs.iter().all(|cost| *cost <= PER_READ), "{SHORT} and {LONG} messages: {costs:?}");
}

#[test]
fn answering_a_settlement_in_mode_second_allocates_nothing() {
    let mut warm = Warm::new(Role::Receiver);
    let body = Bytes::from(vec![1; LEN]);
    let costs = per_run(|messages| {
        let credit = Flow {
            next_incoming_id: Some(warm.count.wrapping_add(1)),
            incoming_window: u32::MAX >> 1,
            outgoing_window: u32::MAX >> 1,
            handle: Some(0),
            delivery_count: Some(warm.count),
            link_credit: Some(messages),
            ..Flow::default()
        };
        warm.pair.feed(&amqp(0, credit));
        warm.pair.take_events();
        let (first, last) = (warm.count + 1, warm.count + messages);
        warm.count = last;
        for n in 0..messages {
            let tag = DeliveryTag::from((u128::from(n)).to_be_bytes());
            warm.pair.engine.send(warm.link, OutgoingDelivery::new(tag, body.clone(), Bytes::new()));
        }
        warm.output();
        let one_by_one: Vec<u8> =
            (first..=last).flat_map(|id| amqp(0, disposition(Role::Receiver, id, id, false))).collect();
        let (now, input) = (warm.pair.now, Bytes::from(one_by_one));
        let answered = counted(&mut warm.pair.engine, |engine| {
            engine.handle_input(now, input);
            while let Some(event) = engine.poll_event() {
                let Event::Disposition { session, first, state, .. } = event else { panic!("{event:?}") };
                engine.settle_outgoing(session, first, state);
            }
        });
        answered + measure(|| warm.output()).count_total
    });
    assert!(costs.iter().all(|cost| *cost <= PER_READ), "{SHORT} and {LONG} messages: {costs:?}");
}
