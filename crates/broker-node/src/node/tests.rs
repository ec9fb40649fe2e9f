mod agreement;
mod awaited;
mod fairness;
mod namespaces;
mod reads;
mod rounds;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use broker_core::{
    ClientId, Command, CoreConfig, Effect, EntityKind, EntityPath, EntitySettings, LinkId, LockId, Message,
    Outcome, QueueId, ReceiveMode, SequenceNumber, SubQueue, Ticket, TransactionId, UnsettledPolicy,
};
use broker_log::{Disk as _, DiskCall, DiskWorker, Faults, FaultyDisk, FileId, JournalConfig};
use bytes::Bytes;

use super::*;
use crate::{
    namespace::units::{split_off_copies, split_off_unit},
    recover,
};

const CLIENT: ClientId = ClientId(7);
const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// Fails every sync once told to, and has room for so many writes and new files; counts reads; keeps nothing unsynced in a crash.
#[derive(Clone)]
struct SyncFails(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>);

impl Default for SyncFails {
    fn default() -> Self {
        Self(Arc::default(), Arc::new(AtomicU64::new(u64::MAX)), Arc::default())
    }
}

impl Faults for SyncFails {
    fn fails(&mut self, call: DiskCall) -> Option<std::io::ErrorKind> {
        self.2.fetch_add(matches!(call, DiskCall::Read(..)).into(), Ordering::Relaxed);
        let takes_room = matches!(call, DiskCall::Create(..) | DiskCall::Write(..));
        if takes_room && self.1.load(Ordering::Relaxed) != u64::MAX {
            let taken = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if taken.is_err() {
                return Some(std::io::ErrorKind::StorageFull);
            }
        }
        let sync = matches!(call, DiskCall::SyncData(..));
        (sync && self.0.load(Ordering::Relaxed)).then_some(std::io::ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        false
    }
}

struct Bench {
    node: Node,
    disk: FaultyDisk,
    faults: SyncFails,
}

impl Bench {
    fn new() -> Self {
        let faults = SyncFails::default();
        let disk = FaultyDisk::new(faults.clone());
        let mut bench = Self { node: Self::recover(&disk), disk, faults };
        bench.handle(vec![
            Command::Connect,
            Command::CreateEntity {
                name: "orders".into(),
                kind: EntityKind::Queue,
                settings: Box::new(EntitySettings::default()),
                ticket: Ticket(1),
            },
        ]);
        bench.finish_io();
        let created = bench.effects();
        assert!(matches!(created.as_slice(), [Effect::EntityDone { .. }]), "{created:?}");
        bench
    }

    fn recover(disk: &FaultyDisk) -> Node {
        Self::recover_as(disk, CoreConfig::default())
    }

    fn recover_as(disk: &FaultyDisk, core: CoreConfig) -> Node {
        let journal = JournalConfig { segment_bytes: 65_536, reserve_bytes: 0, ..JournalConfig::default() };
        recover(disk.clone(), journal, core).expect("the disk holds a journal")
    }

    fn handle(&mut self, commands: Vec<Command>) {
        self.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
        while self.node.work(NOW) {}
    }

    fn finish_io(&mut self) {
        let mut worker = DiskWorker::new(self.disk.clone());
        while let Some(request) = self.node.poll_io() {
            let is_read = request.is_read();
            let done = worker.perform(request);
            self.node.handle_io(done);
            while is_read && self.node.work(NOW) {}
        }
    }

    fn effects(&mut self) -> Vec<Effect> {
        let mut all = Vec::new();
        while let Some(released) = self.node.poll_effects() {
            assert_eq!(released.client, CLIENT);
            all.extend(released.effects);
        }
        all
    }

    fn crash(&mut self) {
        self.disk.crash();
        self.node = Self::recover(&self.disk);
        self.handle(vec![Command::Connect]);
    }

    fn stored(&self) -> u64 {
        self.node.core().entity("orders").map_or(0, |queue| queue.active)
    }
}

fn orders() -> EntityPath {
    EntityPath { entity: "orders".into(), sub_queue: SubQueue::Main }
}

fn publish(ticket: Option<u64>) -> Command {
    publish_payload(ticket, Bytes::from_static(b"\x00\x53\x75\xa0\x01x"))
}

fn publish_bytes(ticket: u64, bytes: usize) -> Command {
    publish_payload(Some(ticket), vec![7; bytes].into())
}

fn publish_payload(ticket: Option<u64>, payload: Bytes) -> Command {
    Command::PublishTo {
        path: orders(),
        messages: vec![Message { payload, ..Message::default() }],
        auto_create: false,
        ticket: ticket.map(Ticket),
    }
}

#[test]
fn an_acceptance_waits_for_its_sync() {
    let mut bench = Bench::new();
    bench.handle(vec![publish(Some(5))]);
    assert!(bench.effects().is_empty(), "nothing is durable yet");
    bench.finish_io();
    let effects = bench.effects();
    assert!(
        matches!(effects.as_slice(), [Effect::Published { first: Ticket(5), last: Ticket(5) }]),
        "{effects:?}"
    );
    bench.crash();
    assert_eq!(bench.stored(), 1);
}

#[test]
fn a_delivery_waits_for_the_sync_of_its_message() {
    let mut bench = Bench::new();
    bench.handle(vec![
        Command::OpenConsumer {
            consumer: LinkId(1),
            path: orders(),
            mode: ReceiveMode::PeekLock,
            unsettled: UnsettledPolicy::Release,
            session: None,
            auto_create: false,
        },
        Command::ByteBudget { limit: 1 << 20, min_bytes: 0 },
        Command::Credit { consumer: LinkId(1), limit: 10, drain: false },
    ]);
    bench.finish_io();
    bench.effects();
    bench.handle(vec![publish(None)]);
    assert!(bench.effects().is_empty(), "the message is not durable yet");
    bench.finish_io();
    let effects = bench.effects();
    assert!(matches!(effects.as_slice(), [Effect::Delivery(_)]), "{effects:?}");
}

#[test]
fn after_a_failed_sync_nothing_is_shown_any_more() {
    let mut bench = Bench::new();
    bench.handle(vec![publish(Some(5))]);
    bench.faults.0.store(true, Ordering::Relaxed);
    bench.finish_io();
    assert!(bench.node.fault().is_some());
    assert!(bench.effects().is_empty());
    bench.faults.0.store(false, Ordering::Relaxed);
    bench.handle(vec![publish(Some(6))]);
    bench.finish_io();
    assert!(bench.effects().is_empty(), "a second sync does not make the first one good");
}

#[test]
fn messages_that_were_not_synced_are_gone_after_a_crash_and_were_not_accepted() {
    let mut bench = Bench::new();
    bench.handle(vec![publish(Some(5))]);
    bench.crash();
    assert_eq!(bench.stored(), 0);
    assert!(bench.effects().is_empty());
}

#[test]
fn the_mark_of_a_segment_states_the_time_at_which_it_was_begun() {
    let mut bench = Bench::new();
    for ticket in 0..3 {
        bench.handle(vec![publish_bytes(ticket, 40_000)]);
        bench.finish_io();
    }
    let begun = |(file, length): (FileId, u64)| {
        let mut bytes = vec![0; length.min(512) as usize];
        bench.disk.read_at(file, 0, &mut bytes).unwrap();
        // Header of the segment, of the batch and of the record, then the mark (docs/disk-format.md).
        let mark = bytes.get(64 + 64 + 12..)?.get(..60)?;
        (bytes.starts_with(b"FERRYSEG") && mark[0] == 1)
            .then(|| u64::from_le_bytes(mark[48..56].try_into().unwrap()))
    };
    let times: Vec<u64> = bench.disk.list().unwrap().into_iter().filter_map(begun).collect();
    // The first one was begun when the journal was opened, for which the test gives no time.
    assert!(times.contains(&0) && times.contains(&NOW.as_millis()), "{times:?}");
}

#[test]
fn closing_makes_unawaited_records_durable() {
    let mut bench = Bench::new();
    bench.handle(vec![publish(None)]);
    bench.node.close();
    assert!(!bench.node.is_closed());
    bench.finish_io();
    assert!(bench.node.is_closed());
    bench.handle(vec![publish(None)]);
    bench.crash();
    assert_eq!(bench.stored(), 1, "what came after the end is not handled");
}

#[test]
fn unawaited_records_are_written_soon_all_the_same() {
    let mut bench = Bench::new();
    bench.handle(vec![publish(None)]);
    let due = bench.node.deadline().expect("the record waits for its time");
    assert_eq!(due, NOW.after(NodeLimits::default().flush_after));
    bench.finish_io();
    assert_eq!(bench.node.deadline(), Some(due), "until then it waits for company");
    bench.node.work(due);
    bench.finish_io();
    bench.node.work(due);
    assert_eq!(bench.node.deadline(), None);
    bench.crash();
    assert_eq!(bench.stored(), 1);
}

#[test]
fn unawaited_records_of_a_sync_for_others_need_no_sync_of_their_own() {
    let mut bench = Bench::new();
    let later = |millis| NOW.after(Duration::from_millis(millis));
    bench.handle(vec![publish(None)]);
    bench.handle(vec![publish(Some(5))]);
    bench.finish_io();
    assert_eq!(bench.effects().len(), 1);
    bench.node.handle_batch(
        later(9),
        NamespaceId::DEFAULT,
        Batch { client: CLIENT, commands: vec![publish(None)] },
    );
    bench.node.work(later(9));
    // The time of the first record has come, but the second has just begun to wait.
    bench.node.work(later(10));
    assert!(bench.node.poll_io().is_none_or(|request| !request.is_write()));
    assert_eq!(bench.node.deadline(), Some(later(19)));
}

#[test]
fn a_wide_dead_lettering_goes_to_the_journal_in_several_units() {
    let settle = |number: u64, outcome: Outcome| Command::Settle {
        queue: QueueId(1),
        sequence: SequenceNumber(number),
        lock: LockId(1),
        outcome,
        ticket: None,
    };
    let dead = || Outcome::DeadLetter(broker_core::Properties::default());
    let cases = [
        // commands, how many stay in the first unit
        ((0..100).map(|n| settle(n, Outcome::Complete)).collect::<Vec<_>>(), None),
        ((0..32).map(|n| settle(n, dead())).collect(), None),
        ((0..33).map(|n| settle(n, dead())).collect(), Some(32)),
        ((0..100).map(|n| settle(n, if n < 50 { Outcome::Complete } else { dead() })).collect(), Some(82)),
    ];
    for (mut commands, first) in cases {
        let all = commands.len();
        let rest = split_off_copies(&mut commands);
        assert_eq!(rest.as_ref().map(|_| commands.len()), first, "of {all}");
        assert_eq!(commands.len() + rest.map_or(0, |rest| rest.len()), all);
    }
}

#[test]
fn no_segment_is_compacted_before_the_records_of_deleted_entities_are_released() {
    let mut bench = Bench::new();
    // Messages in the oldest segments are released last.
    for (name, count) in [("old", 6_000), ("new", 12_000)] {
        let path = EntityPath { entity: name.into(), sub_queue: SubQueue::Main };
        let send = Command::PublishTo {
            path,
            messages: vec![Message { payload: Bytes::from(vec![0; 100]), ..Message::default() }],
            auto_create: true,
            ticket: None,
        };
        bench.handle(vec![send; count]);
        bench.finish_io();
    }
    bench.handle(vec![publish(None)]);
    let delete = |name: &str| Command::DeleteEntity { name: name.into(), expected: None, ticket: Ticket(2) };
    let commands = vec![delete("new"), delete("old")];
    bench.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
    assert!(bench.node.core().has_unreleased_records(), "one step does not give all of it back");
    while bench.node.work(NOW) {
        bench.finish_io();
    }
    assert!(!bench.node.core().has_unreleased_records());
    let stats = bench.node.journal().stats();
    assert!(stats.live_bytes < 10_000 && stats.used_bytes < 1 << 20, "one message is left: {stats:?}");
    bench.crash();
    assert_eq!(bench.stored(), 1);
}

#[test]
fn a_discharge_is_a_unit_of_its_own() {
    let discharge = || Command::Discharge { transaction: TransactionId(1), fail: false, ticket: None };
    let other = || publish(None);
    let cases: [(Vec<Command>, &[usize]); 5] = [
        // commands, sizes of the units
        (vec![other(), other()], &[2]),
        (vec![discharge()], &[1]),
        (vec![discharge(), other()], &[1, 1]),
        (vec![other(), other(), discharge()], &[2, 1]),
        (vec![other(), discharge(), discharge(), other(), other()], &[1, 1, 1, 2]),
    ];
    for (mut commands, expected) in cases {
        let mut sizes = Vec::new();
        while let Some(rest) = split_off_unit(&mut commands) {
            sizes.push(commands.len());
            commands = rest;
        }
        sizes.push(commands.len());
        assert_eq!(sizes, expected);
    }
}

/// Loses what was not synced, sector by sector, as a seed says.
#[derive(Clone)]
struct Tears(u64);

impl Faults for Tears {
    fn fails(&mut self, _: DiskCall) -> Option<std::io::ErrorKind> {
        None
    }

    fn sector_survives(&mut self) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 63 == 0
    }
}

/// One transaction: forty large messages over two queues, and a settlement.
fn forty_and_a_settlement(queue: QueueId, sequence: SequenceNumber, lock: LockId) -> Vec<Command> {
    let transaction = TransactionId(1);
    let mut commands = vec![Command::Declare { transaction, ticket: Ticket(2) }];
    for place in 0..40 {
        let name = if place % 2 == 0 { "orders" } else { "other" };
        let path = EntityPath { entity: name.into(), sub_queue: SubQueue::Main };
        let payload = Bytes::from(vec![place; 3_000]);
        let messages = vec![Message { payload, ..Message::default() }];
        let command = Command::PublishTo { path, messages, auto_create: false, ticket: None };
        commands.push(command.within(transaction));
    }
    let outcome = Outcome::Complete;
    let command = Box::new(Command::Settle { queue, sequence, lock, outcome, ticket: None });
    commands.push(Command::Enlist { transaction, command, settled: true });
    commands.push(Command::Discharge { transaction, fail: false, ticket: Some(Ticket(3)) });
    commands
}

/// A commit of forty large messages over two queues with a settlement, torn by a crash while it is written. Not even a
/// round that ends after each command divides it.
fn torn_commit(seed: u64) -> (u64, u64, u64) {
    let disk = FaultyDisk::new(Tears(seed));
    let round_bytes_max = if seed.is_multiple_of(2) { 1 } else { NodeLimits::default().round_bytes_max };
    let mut node = Bench::recover(&disk).with_limits(NodeLimits { round_bytes_max, ..NodeLimits::default() });
    let perform = |node: &mut Node, requests: usize| {
        let mut worker = DiskWorker::new(disk.clone());
        for _ in 0..requests {
            let Some(request) = node.poll_io() else { break };
            let done = worker.perform(request);
            node.handle_io(done);
        }
    };
    let handle = |node: &mut Node, commands: Vec<Command>| {
        node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
        while node.work(NOW) {}
        let mut lock = None;
        while let Some(released) = node.poll_effects() {
            for effect in released.effects {
                if let Effect::Delivery(delivery) = effect {
                    lock = Some((delivery.queue, delivery.sequence, delivery.lock.expect("it is locked").id));
                }
            }
        }
        lock
    };
    let create = |name: &str| Command::CreateEntity {
        name: name.into(),
        kind: EntityKind::Queue,
        settings: Box::default(),
        ticket: Ticket(1),
    };
    let consumer = LinkId(1);
    let (mode, unsettled) = (ReceiveMode::PeekLock, UnsettledPolicy::KeepLocks);
    handle(
        &mut node,
        vec![
            Command::Connect,
            create("orders"),
            create("other"),
            publish(None),
            Command::OpenConsumer {
                consumer,
                path: orders(),
                mode,
                unsettled,
                auto_create: false,
                session: None,
            },
            Command::ByteBudget { limit: 1 << 20, min_bytes: 0 },
            Command::Credit { consumer, limit: 1, drain: false },
        ],
    );
    perform(&mut node, usize::MAX);
    let (queue, sequence, lock) = handle(&mut node, Vec::new()).expect("the message comes");
    handle(&mut node, forty_and_a_settlement(queue, sequence, lock));
    // One to a few steps of the disk's work are done, the last sync is not.
    perform(&mut node, usize::try_from(seed % 3).unwrap_or_default());
    drop(node);
    disk.crash();
    let node = Bench::recover(&disk);
    let count = |name: &str| node.core().entity(name).map_or(0, |entity| entity.active);
    (seed % 3, count("orders"), count("other"))
}

#[test]
fn a_torn_commit_is_there_whole_or_not_at_all() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let (steps, orders, other) = torn_commit(seed);
        assert!(matches!((orders, other), (1, 0) | (20, 20)), "seed {seed}, {steps} steps: {orders} {other}");
        seen.insert(orders);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 20], "both happen");
}
