//! Allocations of the engine for messages that come and go, once its buffers are warm.
//!
//! A read of several frames is one buffer, which its slices share. Sharing it costs one allocation where it was not shared
//! before, however many frames lie in it. So a run of messages is counted twice, short and long: what both cost alike
//! belongs to the read, and nothing is left for a message.

use allocation_counter::measure;
use amqp_codec::performative::{Begin, DeliveryState, Flow, Transfer};
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

/// For a message of several frames: its place among the deliveries that have begun, its memory, and what shares that.
const GATHERING: u64 = 3;
/// Memory for an eighth more than the first frame brought is taken at once.
const ROOM_SHARE: usize = 8;

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

    /// The peer allows so many deliveries more: their first and last id, which begin with 1.
    fn grant(&mut self, messages: u32) -> (u32, u32) {
        let credit = Flow {
            next_incoming_id: Some(self.count.wrapping_add(1)),
            incoming_window: u32::MAX >> 1,
            outgoing_window: u32::MAX >> 1,
            handle: Some(0),
            delivery_count: Some(self.count),
            link_credit: Some(messages),
            ..Flow::default()
        };
        self.pair.feed(&amqp(0, credit));
        self.pair.take_events();
        let first = self.count + 1;
        self.count += messages;
        (first, self.count)
    }

    fn output(&mut self) {
        self.out.clear();
        self.pair.engine.poll_output(self.pair.now, &mut self.out, usize::MAX);
    }
}

/// Runs of both lengths, each after runs that warmed everything up.
fn per_run([short, long]: [u32; 2], mut run: impl FnMut(u32) -> u64) -> [u64; 2] {
    [short, long].map(|messages| {
        for _ in 0..4 {
            run(long);
        }
        run(messages)
    })
}

/// Allocations of `work` with the engine.
fn counted(engine: &mut Connection, work: impl FnOnce(&mut Connection)) -> u64 {
    measure(|| work(engine)).count_total
}

/// Allocations that it takes to receive and accept runs of messages that come in frames with payloads of these lengths.
fn receiving(runs: [u32; 2], frames: &[usize]) -> [u64; 2] {
    let mut warm = Warm::new(Role::Sender);
    per_run(runs, |messages| {
        let first = warm.count;
        warm.count += messages;
        let ids = (first..warm.count).flat_map(|id| (1..).zip(frames).map(move |frame| (id, frame)));
        let cut = |(id, (number, len)): (u32, (usize, &usize))| {
            let more = number < frames.len();
            amqp_with(0, Transfer { more, ..transfer(0, id) }, &vec![7; *len])
        };
        let input = Bytes::from(ids.flat_map(cut).collect::<Vec<u8>>());
        let (now, link) = (warm.pair.now, warm.link);
        let mut received = 0;
        warm.pair.engine.grant_credit(link, 2 * LONG);
        let taken = counted(&mut warm.pair.engine, |engine| {
            engine.handle_input(now, input);
            while let Some(event) = engine.poll_event() {
                let Event::Transfer(delivery) = event else { panic!("{event:?}") };
                assert_eq!(delivery.payload.len(), frames.iter().sum::<usize>());
                engine.settle_incoming(delivery.session(), delivery.delivery_id, DeliveryState::Accepted);
                received += 1;
            }
        });
        assert_eq!(received, messages);
        taken + measure(|| warm.output()).count_total
    })
}

#[test]
fn receiving_and_accepting_a_message_allocates_nothing() {
    let costs = receiving([SHORT, LONG], &[LEN]);
    assert!(costs.iter().all(|cost| *cost <= PER_READ), "{SHORT} and {LONG} messages: {costs:?}");
}

/// The parts lie apart in what was read, between their frames' headers, so one copy is made: into memory of its own,
/// whose size is not known before the last part has come.
#[test]
fn a_message_of_several_frames_costs_its_gathering_and_the_growth_of_its_memory() {
    let cases: [(&str, &[usize], u64); 5] = [
        ("a body that fills a frame, and its sections", &[LEN, LEN / ROOM_SHARE / 2], GATHERING),
        ("two full frames", &[LEN; 2], GATHERING + 1),
        ("four", &[LEN; 4], GATHERING + 2),
        ("sixteen", &[LEN; 16], GATHERING + 4),
        ("sixty-four", &[LEN; 64], GATHERING + 6),
    ];
    for (name, frames, expected) in cases {
        // Fewer of them: the window of a session counts frames.
        let [few, some] = [SHORT / 8, SHORT];
        let [short, long] = receiving([few, some], frames);
        let each = (long - short) / u64::from(some - few);
        assert_eq!(each, expected, "{name}: {short} for {few} messages, {long} for {some}");
    }
}

#[test]
fn sending_a_message_and_hearing_of_its_settlement_allocates_nothing() {
    let mut warm = Warm::new(Role::Receiver);
    let (sections, bare) = (Bytes::from(vec![1; 100]), Bytes::from(vec![2; LEN - 100]));
    let costs = per_run([SHORT, LONG], |messages| {
        let (first, last) = warm.grant(messages);
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
    let costs = per_run([SHORT, LONG], |messages| {
        let (first, last) = warm.grant(messages);
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

/// The engine's share of what an idle connection takes: 12 KB are the goal for all of it
/// (`cargo xtask bench --scenario idle-5000`).
#[test]
fn an_idle_connection_with_a_session_and_a_link_holds_at_most_2_kib() {
    let mut idle = None;
    let held = measure(|| {
        let mut pair = Pair::begun(plain());
        pair.attach("link", 0, Role::Receiver);
        idle = Some(pair.engine);
    });
    let bytes = u64::try_from(held.bytes_current).expect("something is held") + size_of_val(&idle) as u64;
    assert!((500..=2_048).contains(&bytes), "{bytes} bytes: {held:?}");
}
