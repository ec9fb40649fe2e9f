//! A namespace that floods the disk, or reads from it, delays another by its share only.

use broker_core::{NamespaceSettings, NamespaceSlot, Work, WorkBudget};

use super::*;
use crate::{NamespaceCommand, NamespaceRequest};

const SHARED: u64 = 20_000;
const BODY: usize = 1_000;
/// Bytes of a record beside its message, at most.
const RECORD_MAX: u64 = BODY as u64 + 200;

/// A node with the namespaces `noisy` and `quiet`, each with a queue.
fn two() -> (Bench, NamespaceId, NamespaceId) {
    let mut bench = Bench::new();
    for (name, uid) in [("noisy", 1), ("quiet", 2)] {
        let settings = NamespaceSettings::default();
        let command = NamespaceCommand::Put { name: name.into(), settings, uid, only_create: false };
        bench.node.change_namespace(NOW, NamespaceRequest { client: CLIENT, ticket: Ticket(1) }, command);
        while bench.node.work(NOW) {}
        bench.finish_io();
    }
    let ids = [(1, 1), (2, 2)].map(|(slot, uid)| NamespaceId { slot: NamespaceSlot(slot), uid });
    for id in ids {
        let create = Command::CreateEntity {
            name: "orders".into(),
            kind: EntityKind::Queue,
            settings: Box::default(),
            ticket: Ticket(1),
        };
        give(&mut bench, id, vec![Command::Connect, create]);
        while bench.node.work(NOW) {}
        bench.finish_io();
    }
    bench.effects();
    let limits = NodeLimits {
        unwritten_bytes_shared: SHARED,
        unwritten_bytes_alone: 3 * SHARED,
        ..NodeLimits::default()
    };
    bench.node = bench.node.with_limits(limits);
    (bench, ids[0], ids[1])
}

fn give(bench: &mut Bench, id: NamespaceId, commands: Vec<Command>) {
    bench.node.handle_batch(NOW, id, Batch { client: CLIENT, commands });
}

fn flood(count: u64) -> Vec<Command> {
    (0..count).map(|ticket| publish_bytes(100 + ticket, BODY)).collect()
}

fn unwritten(bench: &Bench, id: NamespaceId) -> u64 {
    bench.node.namespace(id).unwrap().unwritten_bytes
}

#[test]
fn a_flooding_namespace_has_its_share_of_what_waits_for_the_disk_and_another_one_waits_for_nothing() {
    let (mut bench, noisy, quiet) = two();
    give(&mut bench, noisy, flood(200));
    while bench.node.work(NOW) {}
    assert!(bench.node.command_wait(noisy, CLIENT).is_some());
    let bytes = unwritten(&bench, noisy);
    assert!((SHARED / 2..=SHARED / 2 + RECORD_MAX).contains(&bytes), "{bytes}");
    give(&mut bench, quiet, vec![publish(Some(7))]);
    while bench.node.work(NOW) {}
    assert!(bench.node.command_wait(quiet, CLIENT).is_none());
    assert_eq!(bench.node.core_of(quiet).unwrap().entity("orders").unwrap().active, 1);
    assert!(!bench.node.is_behind(), "there is room for all");
    // Each time the disk is done, the next share follows.
    let mut writes = 0;
    while bench.node.has_deferred() {
        bench.finish_io();
        bench.node.work(NOW);
        assert!(unwritten(&bench, noisy) <= SHARED / 2 + RECORD_MAX);
        writes += 1;
        assert!(writes < 200, "it does not end");
    }
    assert!(writes >= 15, "{writes} writes");
    bench.finish_io();
    bench.node.work(NOW);
    assert_eq!(bench.node.core_of(noisy).unwrap().entity("orders").unwrap().active, 200);
}

#[test]
fn in_memory_a_flooding_namespace_goes_on_though_no_write_brings_it_back() {
    let limits = NodeLimits { unwritten_bytes_shared: SHARED, ..NodeLimits::default() };
    let mut node = crate::in_memory(JournalConfig::default(), CoreConfig::default()).with_limits(limits);
    for (name, uid) in [("noisy", 1), ("quiet", 2)] {
        let settings = NamespaceSettings::default();
        let command = NamespaceCommand::Put { name: name.into(), settings, uid, only_create: false };
        node.change_namespace(NOW, NamespaceRequest { client: CLIENT, ticket: Ticket(1) }, command);
        while node.work(NOW) {}
    }
    let [noisy, quiet] = [(1, 1), (2, 2)].map(|(slot, uid)| NamespaceId { slot: NamespaceSlot(slot), uid });
    let create = |ticket| Command::CreateEntity {
        name: "orders".into(),
        kind: EntityKind::Queue,
        settings: Box::default(),
        ticket: Ticket(ticket),
    };
    node.handle_batch(NOW, quiet, Batch { client: CLIENT, commands: vec![Command::Connect, create(1)] });
    let commands = [vec![Command::Connect, create(1)], flood(200)].concat();
    node.handle_batch(NOW, noisy, Batch { client: CLIENT, commands });
    assert!(node.has_deferred(), "more than its share");
    let mut rounds = 0;
    while node.work(NOW) {
        rounds += 1;
        assert!(rounds < 1_000, "it does not end");
    }
    assert!(!node.has_deferred() && rounds > 10, "{rounds}");
    assert_eq!(node.core_of(noisy).unwrap().entity("orders").unwrap().active, 200);
}

#[test]
fn alone_at_work_a_namespace_has_more_and_in_a_node_of_its_own_all() {
    let (mut bench, noisy, _) = two();
    let later = NOW.after(Duration::from_secs(60));
    // The others had no work for a while.
    for now in [later, later.after(Duration::from_secs(11)), later.after(Duration::from_secs(22))] {
        bench.node.handle_batch(now, noisy, Batch { client: CLIENT, commands: flood(1) });
        while bench.node.work(now) {}
        bench.finish_io();
    }
    let now = later.after(Duration::from_secs(22));
    bench.node.handle_batch(now, noisy, Batch { client: CLIENT, commands: flood(200) });
    while bench.node.work(now) {}
    let bytes = unwritten(&bench, noisy);
    assert!((3 * SHARED..=3 * SHARED + RECORD_MAX).contains(&bytes), "{bytes}");

    let mut alone = Bench::new();
    let limits = NodeLimits { unwritten_bytes_shared: 1, unwritten_bytes_alone: 1, ..NodeLimits::default() };
    alone.node = alone.node.with_limits(limits);
    alone.handle(flood(200));
    assert!(!alone.node.has_deferred());
}

#[test]
fn namespaces_that_are_expected_in_a_round_have_their_shares_whichever_comes_first() {
    let (mut bench, noisy, quiet) = two();
    let limits = NodeLimits { round_bytes_max: 60_000, ..NodeLimits::default() };
    bench.node = bench.node.with_limits(limits);
    let handled = |bench: &Bench| bench.node.core_of(noisy).unwrap().entity("orders").unwrap().active;
    bench.node.expect_batch(noisy);
    bench.node.expect_batch(quiet);
    give(&mut bench, noisy, flood(100));
    let first = handled(&bench);
    assert!((24..=30).contains(&first), "{first} of 100 in half a round");
    give(&mut bench, quiet, flood(100));
    let second = bench.node.core_of(quiet).unwrap().entity("orders").unwrap().active;
    assert!((24..=30).contains(&second), "{second} of 100 in half a round");
}

#[test]
fn a_change_of_a_namespace_takes_nothing_from_its_next_round() {
    let (mut bench, _, quiet) = two();
    bench.node = bench.node.with_limits(NodeLimits { round_bytes_max: 1, ..NodeLimits::default() });
    let settings = NamespaceSettings { weight: 2, ..NamespaceSettings::default() };
    let command = NamespaceCommand::Put { name: "quiet".into(), settings, uid: 2, only_create: false };
    bench.node.change_namespace(NOW, NamespaceRequest { client: CLIENT, ticket: Ticket(2) }, command);
    while bench.node.work(NOW) {}
    bench.finish_io();
    give(&mut bench, quiet, vec![publish(Some(7))]);
    bench.node.work(NOW);
    assert!(bench.node.command_wait(quiet, CLIENT).is_none(), "its record was of the round before");
}

/// A journal in which the messages of the first namespace are on the disk alone, and its receiver, who asks for all of them.
fn cold(messages: u64) -> (Bench, NamespaceId, NamespaceId) {
    let (mut bench, noisy, quiet) = two();
    give(&mut bench, noisy, flood(messages));
    while bench.node.has_deferred() {
        bench.node.work(NOW);
        bench.finish_io();
    }
    // Another start has nothing in memory.
    bench.disk.crash();
    bench.node = Bench::recover(&bench.disk);
    let open = Command::OpenConsumer {
        consumer: LinkId(1),
        path: orders(),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::Release,
        session: None,
        auto_create: false,
    };
    let budget = Command::ByteBudget { limit: 1 << 30, min_bytes: 0 };
    give(&mut bench, noisy, vec![Command::Connect, budget, open]);
    give(&mut bench, quiet, vec![Command::Connect]);
    while bench.node.work(NOW) {}
    bench.finish_io();
    bench.effects();
    give(&mut bench, noisy, vec![Command::Credit { consumer: LinkId(1), limit: messages, drain: false }]);
    (bench, noisy, quiet)
}

fn delivered(bench: &mut Bench) -> usize {
    bench.effects().iter().filter(|effect| matches!(effect, Effect::Delivery(_))).count()
}

#[test]
fn a_read_from_disk_keeps_no_other_namespace_waiting() {
    let (mut bench, _, quiet) = cold(200);
    assert!(!bench.node.work(NOW), "what waits for the disk is no work");
    let read = bench.node.poll_io().filter(IoRequest::is_read).expect("the first messages are read");
    assert_eq!(bench.node.journal().disk_reads(), 0, "by nobody yet");
    assert_eq!(bench.node.journal().stats().reads_in_flight, 1);
    let mut worker = DiskWorker::new(bench.disk.clone());
    for ticket in 0..3 {
        give(&mut bench, quiet, vec![publish(Some(ticket))]);
        bench.node.work(NOW);
        let write = bench.node.poll_io().filter(IoRequest::is_write).expect("it is written");
        bench.node.handle_io(worker.perform(write));
        assert!(matches!(bench.effects()[..], [Effect::Published { .. }]));
        while bench.node.poll_io().is_some_and(|request| {
            bench.node.handle_io(worker.perform(request));
            true
        }) {}
    }
    bench.node.handle_io(worker.perform(read));
    bench.node.work(NOW);
    assert!(delivered(&mut bench) > 0);
    bench.finish_io();
    assert!(delivered(&mut bench) > 0);
    let stats = bench.node.journal().stats();
    assert_eq!((stats.reads_in_flight, stats.reads_waiting), (0, 0));
}

#[test]
fn a_namespace_that_is_deleted_while_its_messages_are_read_is_gone() {
    let (mut bench, noisy, quiet) = cold(200);
    assert!(!bench.node.work(NOW));
    let read = bench.node.poll_io().filter(IoRequest::is_read).expect("the first messages are read");
    let request = NamespaceRequest { client: CLIENT, ticket: Ticket(9) };
    bench.node.change_namespace(NOW, request, NamespaceCommand::Delete { name: "noisy".into() });
    let mut worker = DiskWorker::new(bench.disk.clone());
    for _ in 0..1_000 {
        while bench.node.work(NOW) {}
        while let Some(request) = bench.node.poll_io() {
            bench.node.handle_io(worker.perform(request));
        }
    }
    assert!(bench.node.namespace(noisy).is_none());
    // Some of them are for the node itself.
    while bench.node.poll_effects().is_some() {}
    // The one that comes next has its slot, and what was read for the other is of no use to it.
    let settings = NamespaceSettings::default();
    let command = NamespaceCommand::Put { name: "next".into(), settings, uid: 3, only_create: true };
    bench.node.change_namespace(NOW, request, command);
    while bench.node.work(NOW) {}
    bench.node.handle_io(worker.perform(read));
    bench.finish_io();
    let next = NamespaceId { slot: noisy.slot, uid: 3 };
    assert!(bench.node.namespace(next).is_some());
    assert_eq!(delivered(&mut bench), 0);
    give(&mut bench, quiet, vec![publish(Some(7))]);
    while bench.node.work(NOW) {}
    bench.finish_io();
    assert!(matches!(bench.effects()[..], [Effect::Published { .. }]));
    assert!(bench.node.fault().is_none());
}

#[test]
fn a_cold_backlog_is_delivered_whole_and_in_order_under_any_budget() {
    for work in [1, 50, 100_000] {
        let (mut bench, ..) = cold(200);
        bench.node.set_work_budget(WorkBudget::new(Work(work)));
        while bench.node.work(NOW) {}
        bench.finish_io();
        let numbers = bench.effects().into_iter().filter_map(|effect| match effect {
            Effect::Delivery(delivery) => Some(delivery.sequence.0),
            _ => None,
        });
        assert!(numbers.eq(1..=200), "{work} units");
        assert!((2..100).contains(&bench.node.journal().disk_reads()));
    }
}

#[test]
fn the_write_after_a_flood_has_what_waits_for_it_and_not_more_of_the_flood() {
    let (mut bench, noisy, quiet) = two();
    give(&mut bench, noisy, flood(200));
    bench.node.work(NOW);
    let mut worker = DiskWorker::new(bench.disk.clone());
    let mut write = bench.node.poll_io().filter(IoRequest::is_write).expect("the flood is written");
    give(&mut bench, quiet, vec![publish(Some(7))]);
    bench.node.work(NOW);
    let end = bench.node.journal().end();
    bench.node.handle_io(worker.perform(write));
    write = bench.node.poll_io().filter(IoRequest::is_write).expect("the other one's message is written");
    while bench.node.work(NOW) {}
    assert!(bench.node.journal().end() > end && bench.node.has_deferred(), "the flood goes on meanwhile");
    bench.node.handle_io(worker.perform(write));
    // The head of the next batch may be counted.
    assert!((0..64).contains(&(bench.node.journal().durable().0 - end.0)));
    let mut shown = Vec::new();
    while let Some(released) = bench.node.poll_effects() {
        shown.extend(released.effects.into_iter().filter(|_| released.namespace == quiet));
    }
    assert!(matches!(shown.as_slice(), [Effect::Published { first: Ticket(7), .. }]), "{shown:?}");
}
