//! The hot paths of the engine: receiving and settling messages, sending them and hearing of their
//! settlement, each as the bytes come and go. Messages of 1 KiB, 64 in a read.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use amqp_codec::frame::{FrameKind, ProtocolHeader, write_frame};
use amqp_codec::performative::{
    Attach, Begin, DeliveryState, Disposition, Flow, Open, Performative, Source, Target, Transfer,
};
use amqp_codec::types::{DeliveryTag, Role};
use amqp_engine::{AttachReply, Config, Connection, Event, LinkKey, OpenReply, OutgoingDelivery};
use bytes::{Bytes, BytesMut};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Messages per read and per write.
const BATCH: u32 = 64;
/// Bytes of a message.
const LEN: usize = 1_024;

fn frame(performative: &Performative, payload: &[u8], out: &mut BytesMut) {
    write_frame(out, FrameKind::Amqp, 0, |out| {
        performative.encode(out);
        out.extend_from_slice(payload);
    });
}

/// An open connection with one link, whose role of the peer is given.
fn connected(now: Instant, role: Role) -> (Connection, LinkKey) {
    let config = Config { require_sasl: false, ..Config::default() };
    let mut engine = Connection::new(config, now);
    let mut input = BytesMut::from(&ProtocolHeader::Amqp.to_bytes()[..]);
    frame(&Performative::Open(Box::new(Open::new("bench"))), b"", &mut input);
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: u32::MAX >> 1,
        outgoing_window: u32::MAX >> 1,
        handle_max: 255,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    frame(&Performative::Begin(Box::new(begin)), b"", &mut input);
    let attach = Attach {
        source: Some(Source::new("orders")),
        target: Some(Target::new("orders")),
        initial_delivery_count: Some(0),
        ..Attach::new("link", 0, role)
    };
    frame(&Performative::Attach(Box::new(attach)), b"", &mut input);
    engine.handle_input(now, input.freeze());
    let mut key = None;
    while let Some(event) = engine.poll_event() {
        match event {
            Event::Opened(_) => engine.accept_open(OpenReply::default()),
            Event::LinkAttached { link, attach } => {
                engine.accept_link(link, AttachReply::echo(&attach));
                engine.grant_credit(link, 1_000);
                key = Some(link);
            }
            _ => {}
        }
    }
    engine.poll_output(now, &mut BytesMut::new(), usize::MAX);
    (engine, key.expect("a link was attached"))
}

/// `BATCH` transfers from delivery-id `first` on.
fn transfers(first: u32, payload: &[u8]) -> Bytes {
    let mut input = BytesMut::with_capacity(payload.len() * 70);
    for id in (0..BATCH).map(|n| first.wrapping_add(n)) {
        let transfer = Transfer {
            handle: 0,
            delivery_id: Some(id),
            delivery_tag: DeliveryTag::try_from(&id.to_be_bytes()[..]).ok(),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        frame(&Performative::Transfer(transfer), payload, &mut input);
    }
    input.freeze()
}

fn receive_and_accept(group: &mut Group<'_>, now: Instant) {
    let payload = vec![7; LEN];
    let (mut engine, _) = connected(now, Role::Sender);
    let mut out = BytesMut::with_capacity(65_536);
    let mut next = 0u32;
    group.bench_function("receive_and_accept", |b| {
        b.iter_batched(
            || {
                let input = transfers(next, &payload);
                next = next.wrapping_add(BATCH);
                input
            },
            |input| {
                engine.handle_input(now, input);
                while let Some(event) = engine.poll_event() {
                    if let Event::Transfer(delivery) = event {
                        let session = delivery.session();
                        engine.settle_incoming(session, delivery.delivery_id, DeliveryState::Accepted);
                        black_box(delivery.payload);
                    }
                }
                out.clear();
                engine.poll_output(now, &mut out, 65_536);
                black_box(out.len());
            },
            BatchSize::PerIteration,
        );
    });
}

fn send_and_settle(group: &mut Group<'_>, now: Instant) {
    let (mut engine, link) = connected(now, Role::Receiver);
    let sections = Bytes::from(vec![1; 100]);
    let bare = Bytes::from(vec![2; LEN - 100]);
    let mut out = BytesMut::with_capacity(2 * 65_536);
    let mut next = 1u32;
    group.bench_function("send_and_settle", |b| {
        b.iter_batched(
            || {
                let mut input = BytesMut::new();
                let last = next.wrapping_add(BATCH - 1);
                let disposition = Disposition {
                    role: Role::Receiver,
                    first: next,
                    last: Some(last),
                    settled: true,
                    state: Some(DeliveryState::Accepted),
                    batchable: false,
                };
                frame(&Performative::Disposition(disposition), b"", &mut input);
                let flow = Flow {
                    next_incoming_id: Some(next),
                    incoming_window: u32::MAX >> 1,
                    handle: Some(0),
                    delivery_count: Some(next.wrapping_sub(1)),
                    link_credit: Some(1_000),
                    ..Flow::default()
                };
                frame(&Performative::Flow(flow), b"", &mut input);
                next = next.wrapping_add(BATCH);
                input.freeze()
            },
            |input| {
                for n in 0..BATCH {
                    let tag = DeliveryTag::from([u8::try_from(n).unwrap_or(0); 16]);
                    let delivery = OutgoingDelivery::new(tag, sections.clone(), bare.clone());
                    black_box(engine.send(link, delivery));
                }
                out.clear();
                engine.poll_output(now, &mut out, usize::MAX);
                black_box(out.len());
                engine.handle_input(now, input);
                while let Some(event) = engine.poll_event() {
                    black_box(&event);
                }
            },
            BatchSize::PerIteration,
        );
    });
}

/// The peer tells the outcome of every delivery on its own, and each is answered by settling.
fn answer_dispositions(group: &mut Group<'_>, now: Instant) {
    let (engine, link) = connected(now, Role::Receiver);
    let engine = RefCell::new(engine);
    let out = RefCell::new(BytesMut::with_capacity(2 * 65_536));
    let body = Bytes::from(vec![1; 100]);
    let mut next = 1u32;
    let mut setup = || {
        let (mut engine, mut out) = (engine.borrow_mut(), out.borrow_mut());
        let mut input = BytesMut::new();
        for n in 0..BATCH {
            let disposition = Disposition {
                role: Role::Receiver,
                first: next.wrapping_add(n),
                last: None,
                settled: false,
                state: Some(DeliveryState::Accepted),
                batchable: false,
            };
            frame(&Performative::Disposition(disposition), b"", &mut input);
            engine.send(link, OutgoingDelivery::new([1; 16].into(), body.clone(), Bytes::new()));
        }
        out.clear();
        engine.poll_output(now, &mut out, usize::MAX);
        next = next.wrapping_add(BATCH);
        input.freeze()
    };
    let answer = |input| {
        let (mut engine, mut out) = (engine.borrow_mut(), out.borrow_mut());
        engine.handle_input(now, input);
        while let Some(event) = engine.poll_event() {
            if let Event::Disposition { session, first, state, .. } = event {
                engine.settle_outgoing(session, first, state);
            }
        }
        out.clear();
        engine.poll_output(now, &mut out, usize::MAX);
        black_box(out.len());
    };
    group.bench_function("answer_dispositions", |b| {
        b.iter_batched(&mut setup, answer, BatchSize::PerIteration);
    });
}

fn benches(c: &mut Criterion) {
    #[expect(clippy::disallowed_methods, reason = "the start of a clock that stands still")]
    let now = Instant::now();
    let mut group = c.benchmark_group("engine/64x1024");
    group.throughput(Throughput::Elements(BATCH.into()));
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    receive_and_accept(&mut group, now);
    send_and_settle(&mut group, now);
    answer_dispositions(&mut group, now);
    group.finish();
}

criterion_group!(engine, benches);
criterion_main!(engine);
