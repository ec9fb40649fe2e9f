//! Bound of one round, counted in bytes of records and answers.

use broker_core::{Rule, SessionWanted};

use super::*;

const OTHER: ClientId = ClientId(8);
const SUBSCRIPTIONS: u64 = 50;
const MESSAGES: u64 = 40;
const ROUND: u64 = 10_000;

/// A topic with subscriptions that all want everything.
fn with_topic(limits: NodeLimits) -> Bench {
    let mut bench = Bench::new();
    let topic = Command::CreateEntity {
        name: "t".into(),
        kind: EntityKind::Topic,
        settings: Box::default(),
        ticket: Ticket(1),
    };
    let subscription = |number: u64| Command::CreateSubscription {
        name: format!("t/Subscriptions/s{number}").into(),
        settings: Box::default(),
        rules: vec![Rule::default_rule()],
        ticket: Ticket(1),
    };
    bench.handle(vec![topic]);
    bench.handle((0..SUBSCRIPTIONS).map(subscription).collect());
    bench.finish_io();
    bench.effects();
    bench.node = bench.node.with_limits(limits);
    bench
}

fn to_topic(tickets: impl IntoIterator<Item = Option<u64>>) -> Vec<Command> {
    let path = EntityPath { entity: "t".into(), sub_queue: SubQueue::Main };
    let send = |ticket: Option<u64>| Command::PublishTo {
        path: path.clone(),
        messages: vec![Message {
            payload: Bytes::from_static(b"\x00\x53\x75\xa0\x01x"),
            ..Message::default()
        }],
        auto_create: false,
        ticket: ticket.map(Ticket),
    };
    tickets.into_iter().map(send).collect()
}

/// Bytes that one message to the topic makes.
fn bytes_of_one(bench: &mut Bench) -> u64 {
    let before = bench.node.journal().committed().0;
    bench.handle(to_topic([None]));
    bench.finish_io();
    let bytes = bench.node.journal().committed().0 - before;
    assert!(bytes > SUBSCRIPTIONS * 40 && bytes < ROUND, "{bytes}");
    bytes
}

fn copies(bench: &Bench) -> u64 {
    let of = |number: u64| bench.node.core().entity(&format!("t/Subscriptions/s{number}")).map(|e| e.active);
    (0..SUBSCRIPTIONS).filter_map(of).sum()
}

/// The tickets that were accepted, by client.
fn accepted(bench: &mut Bench) -> Vec<(ClientId, u64)> {
    let mut all = Vec::new();
    while let Some(released) = bench.node.poll_effects() {
        for effect in released.effects {
            match effect {
                Effect::Published { first, last } => {
                    all.extend((first.0..=last.0).map(|ticket| (released.client, ticket)));
                }
                other => panic!("not expected: {other:?}"),
            }
        }
    }
    all
}

#[test]
fn a_batch_to_many_subscriptions_is_worked_off_in_rounds_and_others_come_between() {
    let mut bench = with_topic(NodeLimits { round_bytes_max: ROUND, ..NodeLimits::default() });
    let one = bytes_of_one(&mut bench);
    let mut before = bench.node.journal().committed().0;
    let commands = to_topic((1..=MESSAGES).map(Some));
    bench.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
    bench.node.handle_batch(
        NOW,
        NamespaceId::DEFAULT,
        Batch { client: OTHER, commands: vec![publish(Some(77))] },
    );
    assert!(
        bench.node.command_wait(NamespaceId::DEFAULT, CLIENT).is_some()
            && bench.node.command_wait(NamespaceId::DEFAULT, OTHER).is_some()
    );
    let (mut seen, mut rounds) = (Vec::new(), 0);
    loop {
        let more = bench.node.work(NOW);
        let end = bench.node.journal().committed().0;
        // Heads and paddings of batches and segments come on top.
        assert!(end - before <= ROUND + one + 4_096, "round {rounds} brought {} bytes", end - before);
        (before, rounds) = (end, rounds + 1);
        bench.finish_io();
        seen.extend(accepted(&mut bench));
        if !more {
            break;
        }
    }
    let fewest = MESSAGES * one / (ROUND + one);
    assert!(rounds >= fewest, "{rounds} rounds");
    let place = seen.iter().position(|told| *told == (OTHER, 77)).expect("it is accepted");
    assert!(place < 12, "the other client waited for {place} messages");
    let mine: Vec<u64> =
        seen.iter().filter(|(client, _)| *client == CLIENT).map(|(_, ticket)| *ticket).collect();
    assert_eq!(mine, (1..=MESSAGES).collect::<Vec<_>>());
    assert_eq!(copies(&bench), (MESSAGES + 1) * SUBSCRIPTIONS);
    assert!(!bench.node.has_deferred());
}

#[test]
fn unwritten_bytes_bound_the_commands_that_are_handled() {
    let mut bench = with_topic(NodeLimits { unwritten_bytes_max: ROUND, ..NodeLimits::default() });
    let one = bytes_of_one(&mut bench);
    // Nobody waits for an answer: the node itself has to ask for the writing.
    let commands = to_topic((0..MESSAGES).map(|_| None));
    bench.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
    assert_eq!(bench.node.poll_caught_up(), None);
    let mut times = 0;
    while bench.node.has_deferred() {
        while bench.node.work(NOW) {}
        let unwritten = bench.node.journal().unwritten_bytes();
        assert!(unwritten <= ROUND + one + 4_096, "{unwritten} bytes wait for the disk");
        assert!(!bench.node.work(NOW), "only the disk can help");
        bench.finish_io();
        times += 1;
        assert!(times < 100, "it does not end");
        bench.node.work(NOW);
    }
    assert!(times >= 3, "the disk was waited for {times} times");
    assert_eq!(bench.node.poll_caught_up(), Some((NamespaceId::DEFAULT, CLIENT)));
    assert_eq!(bench.node.poll_caught_up(), None);
    assert_eq!(copies(&bench), (MESSAGES + 1) * SUBSCRIPTIONS);
}

#[test]
fn timed_work_waits_for_the_disk_as_well() {
    const LATE: u64 = 200;
    let mut bench = Bench::new();
    bench.finish_io();
    let core = CoreConfig { deliver_messages_max: 16, ..CoreConfig::default() };
    bench.node = Bench::recover_as(&bench.disk, core);
    let settings = EntitySettings { dead_letter_on_expiration: true, ..EntitySettings::default() };
    let late = EntityPath { entity: "late".into(), sub_queue: SubQueue::Main };
    let message = Message {
        payload: Bytes::from([&b"\x00\x53\x75\xb0\x00\x00\x03\xe8"[..], &[7; 1_000]].concat()),
        time_to_live: Some(Duration::from_secs(1)),
        ..Message::default()
    };
    let one = message.payload.len() as u64 + 300;
    bench.handle(vec![
        Command::Connect,
        Command::CreateEntity {
            name: "late".into(),
            kind: EntityKind::Queue,
            settings: Box::new(settings),
            ticket: Ticket(1),
        },
        Command::PublishTo {
            path: late,
            messages: vec![message; usize::try_from(LATE).unwrap()],
            auto_create: false,
            ticket: None,
        },
    ]);
    bench.finish_io();
    bench.effects();
    bench.node = bench.node.with_limits(NodeLimits { unwritten_bytes_max: ROUND, ..NodeLimits::default() });
    let later = NOW.after(Duration::from_secs(2));
    let dead = |bench: &Bench| bench.node.core().entity("late").map_or(0, |queue| queue.dead_letter);
    let mut times = 0;
    while dead(&bench) < LATE {
        while bench.node.work(later) {}
        let unwritten = bench.node.journal().unwritten_bytes();
        assert!(unwritten <= ROUND + 16 * one + 4_096, "{unwritten} bytes wait for the disk");
        assert!(bench.node.deadline().is_none_or(|at| at > later), "only the disk can help");
        bench.finish_io();
        times += 1;
        assert!(times < 100, "it does not end");
    }
    assert!(times >= 5, "the disk was waited for {times} times");
}

#[test]
fn later_batches_of_a_client_wait_behind_its_earlier_ones() {
    let mut bench = with_topic(NodeLimits { round_bytes_max: ROUND, ..NodeLimits::default() });
    let commands = to_topic((1..=MESSAGES).map(Some));
    bench.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
    let mut seen = Vec::new();
    for ticket in [101, 102] {
        bench.node.work(NOW);
        bench.node.handle_batch(
            NOW,
            NamespaceId::DEFAULT,
            Batch { client: CLIENT, commands: vec![publish(Some(ticket))] },
        );
    }
    while bench.node.work(NOW) {}
    bench.finish_io();
    seen.extend(accepted(&mut bench).into_iter().map(|(_, ticket)| ticket));
    assert_eq!(seen, (1..=MESSAGES).chain([101, 102]).collect::<Vec<_>>());
}

#[test]
fn answers_much_larger_than_their_requests_come_in_rounds() {
    let mut bench = Bench::new();
    let path = || EntityPath { entity: "s".into(), sub_queue: SubQueue::Main };
    let settings = EntitySettings { requires_session: true, ..EntitySettings::default() };
    let (mode, unsettled) = (ReceiveMode::PeekLock, UnsettledPolicy::Release);
    let session = Some(SessionWanted::Named("one".into()));
    let state = Some(Bytes::from(vec![7; 4_000]));
    bench.handle(vec![
        Command::CreateEntity {
            name: "s".into(),
            kind: EntityKind::Queue,
            settings: Box::new(settings),
            ticket: Ticket(1),
        },
        Command::OpenConsumer {
            consumer: LinkId(1),
            path: path(),
            mode,
            unsettled,
            session,
            auto_create: false,
        },
    ]);
    bench.handle(vec![Command::SetSessionState {
        path: path(),
        session: "one".into(),
        state,
        ticket: Ticket(2),
    }]);
    bench.finish_io();
    bench.effects();
    bench.node = bench.node.with_limits(NodeLimits { round_bytes_max: ROUND, ..NodeLimits::default() });
    let ask = |number| Command::GetSessionState {
        path: path(),
        session: "one".into(),
        looks_on: false,
        ticket: Ticket(number),
    };
    bench.node.handle_batch(
        NOW,
        NamespaceId::DEFAULT,
        Batch { client: CLIENT, commands: (0..20).map(ask).collect() },
    );
    let (mut told, mut goes_on) = (Vec::new(), true);
    while goes_on {
        goes_on = bench.node.work(NOW);
        let effects = bench.effects();
        assert!(effects.len() <= 3, "{} answers in one round", effects.len());
        told.extend(effects.into_iter().map(|effect| match effect {
            Effect::SessionState { ticket, state: Some(state) } if state.len() == 4_000 => ticket.0,
            other => panic!("not expected: {other:?}"),
        }));
    }
    assert_eq!(told, (0..20).collect::<Vec<_>>());
}
