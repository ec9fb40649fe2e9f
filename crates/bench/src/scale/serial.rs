//! The parts that one shard does one after the other: the node's work for a message, and the write and sync of its journal.
//!
//! Invariant: both are measured alone, on one thread, on a journal that is as empty as that of the other measurements.

use std::path::Path;
use std::time::{Duration, Instant};

use broker_core::{Batch, ClientId, CoreConfig, Effect, Timestamp};
use broker_log::{DiskWorker, Durability, JournalConfig, RealDisk};
use broker_node::{NamespaceId, Node};
use rustix::time::{ClockId, clock_gettime};

use super::estimate::SerialParts;
use super::generator::{Answers, Batches, opened, opening};
use super::load::Load;
use crate::Fallible;

const CLIENT: ClientId = ClientId(1);
/// A time of the broker; nothing is due in these runs.
const NOW: Timestamp = Timestamp::from_millis(1_763_000_000_000);

/// A node and its disk on one thread, and the time that they have used.
struct Alone {
    node: Node,
    worker: DiskWorker<RealDisk>,
    in_node: Duration,
    in_writes: Duration,
    writes: u32,
    bytes: u64,
}

/// One sync for so many batches, over and over.
pub(super) fn measure(folder: &Path, batches_a_sync: u32, spell: Duration) -> Fallible<SerialParts> {
    println!("  the serial parts …");
    let disk = RealDisk::open(folder)?;
    let journal = JournalConfig { durability: Durability::Fsync, ..JournalConfig::default() };
    let node = broker_node::recover(disk.clone(), journal, CoreConfig::default())?;
    let mut alone = Alone {
        node,
        worker: DiskWorker::new(disk),
        in_node: Duration::ZERO,
        in_writes: Duration::ZERO,
        writes: 0,
        bytes: 0,
    };
    alone.submit(vec![opening(0)]);
    let mut batches = Batches::new(opened(&alone.settle()?)?, Load::Full.batch());
    let mut answers = Answers::default();
    // The first writes make files.
    let begin = Instant::now();
    let mut measured_from = None;
    while begin.elapsed() < spell + spell / 4 {
        if measured_from.is_none() && begin.elapsed() > spell / 4 {
            measured_from = Some(answers.accepted);
            alone.forget_times();
        }
        alone.submit((0..batches_a_sync).map(|_| batches.make()).collect());
        answers.take(alone.settle()?)?;
    }
    let messages = answers.accepted - measured_from.unwrap_or_default();
    if messages == 0 || alone.writes == 0 {
        return Err("no message became durable".into());
    }
    #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in a run")]
    let (messages, bytes) = (messages as f64, alone.bytes as f64);
    let writes = f64::from(alone.writes);
    Ok(SerialParts {
        node_us: alone.in_node.as_secs_f64() * 1e6 / messages,
        write_us: alone.in_writes.as_secs_f64() * 1e6 / writes,
        messages_a_sync: messages / writes,
        bytes_a_sync: bytes / writes,
    })
}

impl Alone {
    fn forget_times(&mut self) {
        (self.in_node, self.in_writes, self.writes, self.bytes) = (Duration::ZERO, Duration::ZERO, 0, 0);
    }

    /// Hands in batches of one round, up to the point where the disk is asked.
    fn submit(&mut self, batches: Vec<Vec<broker_core::Command>>) {
        let before = thread_cpu();
        for commands in batches {
            self.node.handle_batch(NOW, NamespaceId::DEFAULT, Batch { client: CLIENT, commands });
        }
        while self.node.work(NOW) {}
        self.in_node += thread_cpu().saturating_sub(before);
    }

    /// Performs the disk work, and gives the effects that it has released.
    fn settle(&mut self) -> Fallible<Vec<Effect>> {
        let mut effects = Vec::new();
        loop {
            let before = thread_cpu();
            while let Some(released) = self.node.poll_effects() {
                effects.extend(released.effects);
            }
            let request = self.node.poll_io();
            self.in_node += thread_cpu().saturating_sub(before);
            let Some(request) = request else { break };
            let (is_write, bytes) = (request.is_write(), request.bytes());
            let before = Instant::now();
            let done = self.worker.perform(request);
            // Files are prepared and deleted by a thread of their own.
            if is_write {
                self.in_writes += before.elapsed();
                self.writes += 1;
                self.bytes += bytes;
            }
            let before = thread_cpu();
            self.node.handle_io(done);
            while self.node.work(NOW) {}
            self.in_node += thread_cpu().saturating_sub(before);
        }
        if let Some(fault) = self.node.fault() {
            return Err(fault.into());
        }
        Ok(effects)
    }
}

/// CPU of this thread: what others take away does not count.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
