//! Commands and due work for messages that are on the disk alone: the node reads none of them itself, and serves everybody else
//! meanwhile.

use super::*;
use crate::CommandWait;

impl Bench {
    /// Gives commands of a client. The node reads nothing itself.
    fn give(&mut self, now: Timestamp, client: ClientId, commands: Vec<Command>) {
        let before = self.reads();
        self.node.handle_batch(now, NamespaceId::DEFAULT, Batch { client, commands });
        self.step(now);
        assert_eq!(self.reads(), before, "the node has waited for the disk");
    }

    /// The node does all that it can. It reads nothing itself.
    fn step(&mut self, now: Timestamp) {
        let before = self.reads();
        while self.node.work(now) {}
        assert_eq!(self.reads(), before, "the node has waited for the disk");
    }

    fn reads(&self) -> u64 {
        self.faults.2.load(Ordering::Relaxed)
    }

    /// Another client sends, and is answered while these reads are not done. Then they are.
    fn serve_another(&mut self, now: Timestamp) {
        let mut worker = DiskWorker::new(self.disk.clone());
        let mut reads = Vec::new();
        self.give(now, OTHER, vec![publish(Some(1))]);
        assert_eq!(self.node.command_wait(NamespaceId::DEFAULT, OTHER), None);
        while let Some(request) = self.node.poll_io() {
            if request.is_read() {
                reads.push(request);
            } else {
                self.node.handle_io(worker.perform(request));
            }
        }
        assert!(!reads.is_empty(), "something is read");
        let mut told = Vec::new();
        while let Some(released) = self.node.poll_effects() {
            told.extend(released.effects.into_iter().filter(|_| released.client == OTHER));
        }
        assert!(matches!(told[..], [Effect::Published { .. }]), "{told:?}");
        for read in reads {
            self.node.handle_io(worker.perform(read));
            self.step(now);
        }
    }

    /// The disk does all that it is asked.
    fn run(&mut self, now: Timestamp) {
        let mut worker = DiskWorker::new(self.disk.clone());
        while let Some(request) = self.node.poll_io() {
            self.node.handle_io(worker.perform(request));
            self.step(now);
        }
    }

    fn dead(&self) -> u64 {
        self.node.core().entity("cold").map_or(0, |queue| queue.dead_letter)
    }
}

const OTHER: ClientId = ClientId(8);

/// A node that has started anew: all messages of its queue are on the disk alone.
fn cold(settings: EntitySettings, count: usize, time_to_live: Option<Duration>) -> Bench {
    let mut bench = Bench::new();
    let create = Command::CreateEntity {
        name: "cold".into(),
        kind: EntityKind::Queue,
        settings: Box::new(settings),
        ticket: Ticket(1),
    };
    bench.handle(vec![create]);
    let payload = Bytes::from(vec![7; 8 << 10]);
    for _ in 0..count {
        let message = Message { payload: payload.clone(), time_to_live, ..Message::default() };
        let (path, messages) = (cold_path(), vec![message]);
        bench.handle(vec![Command::PublishTo {
            path,
            messages,
            auto_create: false,
            ticket: Some(Ticket(9)),
        }]);
        bench.finish_io();
    }
    forget(&mut bench);
    bench.handle(vec![Command::ByteBudget { limit: 1 << 30, min_bytes: 0 }]);
    bench
}

/// A start has nothing in memory.
fn forget(bench: &mut Bench) {
    bench.finish_io();
    bench.crash();
    bench.finish_io();
    bench.effects();
}

fn cold_path() -> EntityPath {
    EntityPath { entity: "cold".into(), sub_queue: SubQueue::Main }
}

#[test]
fn a_request_that_reads_waits_for_the_disk_and_nobody_else_does() {
    let mut bench = cold(EntitySettings::default(), 40, None);
    let open = Command::OpenConsumer {
        consumer: LinkId(1),
        path: cold_path(),
        mode: ReceiveMode::PeekLock,
        unsettled: UnsettledPolicy::KeepLocks,
        session: None,
        auto_create: false,
    };
    bench.give(NOW, CLIENT, vec![open, Command::Credit { consumer: LinkId(1), limit: 40, drain: false }]);
    bench.run(NOW);
    let told = bench.effects();
    let locked = told.iter().filter_map(|effect| match effect {
        Effect::Delivery(delivery) => Some((delivery.queue, delivery.sequence, delivery.lock?.id)),
        _ => None,
    });
    let commands: Vec<Command> = locked
        .zip(100..)
        .map(|((queue, sequence, lock), ticket)| {
            let outcome = Outcome::DeadLetter(broker_core::Properties::default());
            Command::Settle { queue, sequence, lock, outcome, ticket: Some(Ticket(ticket)) }
        })
        .collect();
    assert_eq!(commands.len(), 40);
    // The records of others take the place of those that were read.
    for _ in 0..200 {
        bench.give(NOW, OTHER, vec![publish_bytes(1, 60_000)]);
        bench.run(NOW);
    }
    while bench.node.poll_effects().is_some() {}
    bench.give(NOW, CLIENT, commands);
    assert_eq!(bench.node.command_wait(NamespaceId::DEFAULT, CLIENT), Some(CommandWait::Disk));
    assert!(bench.node.has_reading() && !bench.node.has_deferred());
    bench.serve_another(NOW);
    bench.run(NOW);
    assert_eq!((bench.dead(), bench.node.command_wait(NamespaceId::DEFAULT, CLIENT)), (40, None));
    assert!(!bench.node.has_reading());
}

#[test]
fn expiry_waits_for_the_disk_and_nobody_else_does() {
    let settings = EntitySettings { dead_letter_on_expiration: true, ..EntitySettings::default() };
    let mut bench = cold(settings, 40, Some(Duration::from_millis(1)));
    let later = NOW.after(Duration::from_millis(5));
    bench.step(later);
    assert!(bench.node.has_reading());
    assert_eq!(bench.dead(), 0);
    bench.serve_another(later);
    bench.run(later);
    assert_eq!(bench.dead(), 40);
    assert!(!bench.node.has_reading());
}

#[test]
fn forwarding_waits_for_the_disk_and_nobody_else_does() {
    let mut bench = cold(EntitySettings::default(), 40, None);
    let settings = EntitySettings { forward_to: Some("orders".into()), ..EntitySettings::default() };
    let update = Command::UpdateEntity {
        name: "cold".into(),
        settings: Box::new(settings),
        expected: None,
        ticket: Ticket(5),
    };
    bench.give(NOW, CLIENT, vec![update]);
    assert_eq!(bench.stored(), 0);
    bench.serve_another(NOW);
    bench.run(NOW);
    assert_eq!(bench.stored(), 41);
}
