//! What a message costs between the socket's buffer and the core's door, both ways, engine included.
//!
//! Each figure is for [`RUN`] messages with 1 KiB bodies; divide.

use std::{hint::black_box, sync::Arc, time::Instant};

use amqp_codec::{
    message::MessageBuilder,
    performative::{DeliveryState, Flow},
    types::ReceiverSettleMode,
};
use amqp_gateway::{Gateway, GatewayConfig, GatewayNamespace, Now, Peer};
use broker_auth::{Anonymous, Authority, Credentials};
use broker_core::{
    ClientId, Command, Delivery, Effect, EntityKind, LinkId, Lock, LockId, LockToken, Properties, QueueId,
    QueueInfo, SequenceNumber, Stored, Ticket, Timestamp,
};
use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use testkit::Script;

/// Messages of one run.
const RUN: u32 = 500;

#[expect(clippy::disallowed_methods, reason = "benches have no other clock")]
fn now() -> Now {
    let utc = Timestamp::from_millis(1_795_000_000_000);
    Now { instant: Instant::now(), utc, wall: utc }
}

/// A gateway with one link, opened by the script and the core's answer.
fn opened(script: &mut Script) -> (Gateway, LinkId, Vec<Command>) {
    let authority = Arc::new(Authority::new(Credentials::development(Anonymous::Allow)));
    let peer = Peer { tls: false, certificate_subject: None, loopback: true };
    let config = Arc::new(GatewayConfig { deliver_window_bytes: 1 << 30, ..GatewayConfig::default() });
    let namespace = GatewayNamespace { name: "default".into(), authority, config };
    let (authority, config) = (Arc::clone(&namespace.authority), Arc::clone(&namespace.config));
    let mut gateway = Gateway::new(config, authority, ClientId(1), peer, 1, now());
    gateway.handle_input(now(), script.take_output());
    gateway.place_in(now(), &namespace);
    let commands = gateway.take_commands();
    let queue = QueueInfo {
        queue: QueueId(1),
        kind: EntityKind::Queue,
        name: "q".into(),
        max_message_bytes: 1 << 20,
        tier_message_bytes: 1 << 20,
        detects_duplicates: false,
        partitioned: false,
    };
    let mut link = LinkId(0);
    for command in &commands {
        let effect = match command {
            Command::OpenProducer { producer, .. } => {
                link = *producer;
                Effect::ProducerOpened { producer: *producer, queue: queue.clone() }
            }
            Command::OpenConsumer { consumer, .. } => {
                link = *consumer;
                Effect::ConsumerOpened { consumer: *consumer, queue: queue.clone(), session: None }
            }
            _ => continue,
        };
        gateway.handle_effects(now(), vec![effect]);
    }
    drain(&mut gateway);
    (gateway, link, commands)
}

fn drain(gateway: &mut Gateway) -> usize {
    let mut out = BytesMut::with_capacity(1 << 20);
    gateway.poll_output(now(), &mut out, usize::MAX);
    gateway.output_written(out.len());
    out.len()
}

fn payload() -> Bytes {
    MessageBuilder::new().message_id("0123456789").data(&[7; 1024]).build()
}

fn inward(c: &mut Criterion) {
    let mut group = c.benchmark_group("messages");
    group.throughput(Throughput::Elements(RUN.into()));
    let mut script = Script::new();
    script.sasl("ANONYMOUS", None).open("bench").begin(0).attach_sender(0, 0, "s", Some("q"));
    let (mut gateway, ..) = opened(&mut script);
    let (mut next, message) = (0, payload());
    group.bench_function("publish_and_accept", |b| {
        b.iter_batched(
            || {
                for _ in 0..RUN {
                    script.transfer(0, 0, next, false, &message);
                    next += 1;
                }
                script.take_output()
            },
            |input| {
                gateway.handle_input(now(), input);
                let commands = gateway.take_commands();
                let tickets: Vec<Ticket> = commands
                    .iter()
                    .filter_map(|command| match command {
                        Command::Publish { ticket, .. } => *ticket,
                        _ => None,
                    })
                    .collect();
                let (first, last) = (*tickets.first().expect("a run"), *tickets.last().expect("a run"));
                let effect = Effect::Published { first, last };
                gateway.handle_effects(now(), vec![effect]);
                black_box(drain(&mut gateway));
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn delivery(consumer: LinkId, number: u64, payload: &Bytes) -> Effect {
    Effect::Delivery(Delivery {
        consumer,
        queue: QueueId(1),
        sequence: SequenceNumber(number),
        lock: Some(Lock {
            id: LockId(1),
            token: LockToken(u128::from(number)),
            until: Timestamp::from_millis(1_795_000_060_000),
        }),
        stored: Stored {
            extras: None,
            enqueued_at: Timestamp::from_millis(1_795_000_000_000),
            expires_at: None,
            delivery_count: 0,
            state: 0,
            acquired_before: false,
            properties: Properties::default(),
            payload: payload.clone(),
        },
    })
}

fn outward(c: &mut Criterion) {
    let mut group = c.benchmark_group("messages");
    group.throughput(Throughput::Elements(RUN.into()));
    let mut script = Script::new();
    script.sasl("ANONYMOUS", None).open("bench").begin(0);
    script.attach_receiver(0, 0, "r", "q", Some(ReceiverSettleMode::First));
    let (mut gateway, link, _) = opened(&mut script);
    let (mut number, message) = (0_u64, payload());
    let mut first = 1_u32;
    group.bench_function("deliver_and_settle", |b| {
        b.iter_batched(
            || {
                let effects: Vec<_> =
                    (0..u64::from(RUN)).map(|n| delivery(link, number + n, &message)).collect();
                number += u64::from(RUN);
                let flow = Flow {
                    next_incoming_id: Some(first),
                    incoming_window: 1 << 20,
                    outgoing_window: 1 << 20,
                    handle: Some(0),
                    delivery_count: Some(u32::try_from(number - u64::from(RUN)).expect("few")),
                    link_credit: Some(RUN),
                    ..Flow::default()
                };
                script.flow(0, flow);
                let credit = script.take_output();
                let last = first + RUN - 1;
                script.disposition(0, first, last, true, Some(DeliveryState::Accepted));
                first += RUN;
                (credit, effects, script.take_output())
            },
            |(credit, effects, answers)| {
                gateway.handle_input(now(), credit);
                gateway.handle_effects(now(), effects);
                black_box(drain(&mut gateway));
                gateway.handle_input(now(), answers);
                let commands = gateway.take_commands();
                assert!(commands.len() >= RUN as usize);
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, inward, outward);
criterion_main!(benches);
