//! Sends in one namespace beside another namespace at full load.
//!
//! A broker with two shards has three namespaces: `noisy` and `quiet` in one shard, `apart` in the other. A thousand durable
//! sends a second are measured in `quiet` and in `apart`, first alone, and then while clients of `noisy` send and receive
//! messages of 64 KiB as fast as the broker lets them, behind a backlog that is larger than the broker's cache: what they
//! receive is read from the disk. Generators and broker share the machine's cores and its disk, and the disk is measured by
//! itself in the same run, alone and beside writes and reads at the rates that `noisy` has reached.
//!
//! Invariant: every figure beside the load has one alone from the same start of the broker; a run in which any message of any
//! namespace was refused, lost, damaged or overtaken has no figure.

mod disk;
mod figures;
mod namespaces;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::broker::{Broker, Running};
use crate::http::Visitor;
use crate::load::{Extent, Load, Loop, Peer, Progress};
use crate::process_usage::Usage;
use crate::table::{self, thousands};
use disk::{DiskTimes, Traffic};
use figures::{BesideLoad, FullLoad, Measurement, Sends};
use namespaces::{FULL_SHARD, FULL_SIZE, MEASURED, MeasuredNamespace, RATE, SIZE};

/// Name for `--scenario`.
pub(super) const NAME: &str = "neighbours";
/// Default of `--backlog-mb`: several times the broker's cache.
pub(super) const BACKLOG_MB: u64 = 3_072;

/// Sending connections, receiving ones, and queues there.
const FULL_CONNECTIONS: u32 = 4;
/// Unacknowledged messages of a sending connection there.
const FULL_WINDOW: u32 = 64;
/// Messages that make a megabyte of the backlog.
const MESSAGES_PER_MB: u64 = 16;

/// Before a measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Between the fill and the first measurement beside the load.
const SETTLE: Duration = Duration::from_secs(2);
/// Longest time to fill the backlog, and to receive it at the end.
const BACKLOG_LIMIT: Duration = Duration::from_secs(20 * 60);

/// The namespace at full load.
const NOISY: &str = "noisy";
/// Name and text of the development key, which opens every namespace of a broker without keys.
const KEY: (&str, &str) = ("RootManageSharedAccessKey", "SAS_KEY_VALUE");

/// Arguments of the scenario.
pub(super) struct Neighbours {
    pub(super) binary: PathBuf,
    /// Folder of the broker's files, which are removed at the end.
    pub(super) folder: PathBuf,
    pub(super) backlog_mb: u64,
    /// Nice value of the threads that make the full load.
    pub(super) nice: i32,
    /// Measured seconds of each namespace, alone and beside the load.
    pub(super) seconds: u64,
}

/// Processes whose CPU is reported.
#[derive(Clone, Copy)]
struct Processes {
    broker: u32,
    generators: u32,
}

impl Neighbours {
    /// Measures `reps` times, each on an empty folder.
    pub(super) fn run(&self, reps: usize) -> Result<Vec<Measurement>, String> {
        let mut all = Vec::new();
        for rep in 1..=reps.max(1) {
            println!("{NAME}, {rep} of {} …", reps.max(1));
            let measurement = self.measure();
            // Gigabytes, whether there is a result or not.
            let removed = self.remove_folder();
            let measurement = measurement.and_then(|done| removed.map(|()| done));
            let measurement = measurement.map_err(|error| error.to_string())?;
            for row in figures::rows(std::slice::from_ref(&measurement)) {
                println!("  {}", row.join(" | "));
            }
            all.push(measurement);
        }
        Ok(all)
    }

    fn remove_folder(&self) -> Fallible<()> {
        if self.folder.is_dir() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }

    fn measure(&self) -> Fallible<Measurement> {
        self.remove_folder()?;
        let broker = Broker::configured(self.binary.clone(), "shards = 2\n".to_owned())?;
        let running = broker.start(&self.folder, true)?;
        create_namespaces(&running)?;
        let processes = Processes { broker: running.pid, generators: std::process::id() };
        let mut alone = Vec::new();
        for namespace in &MEASURED {
            alone.push(self.sends(&running, namespace)?);
        }
        let beside = self.full_load().beside(&peer(&running, NOISY), BACKLOG_LIMIT, |full| {
            println!("  filling {} MB …", thousands(self.backlog_mb));
            full.until(BACKLOG_LIMIT, |counts| counts.acknowledged >= self.backlog())?;
            full.wait(SETTLE)?;
            let mut beside = Vec::new();
            for namespace in &MEASURED {
                beside.push(self.sends_beside(&running, processes, namespace, full)?);
            }
            println!("  receiving the rest …");
            Ok(beside)
        })?;
        running.stop();
        let median =
            |of: fn(&FullLoad) -> f64| crate::figures::median(beside.iter().map(|beside| of(&beside.full)));
        let traffic = Traffic {
            written: median(|full| full.bytes_sent(FULL_SIZE)),
            read: median(|full| full.bytes_received(FULL_SIZE)),
        };
        let disk = (
            DiskTimes::measure(&self.folder, RATE, self.measured(), Traffic::default())?,
            DiskTimes::measure(&self.folder, RATE, self.measured(), traffic)?,
        );
        Ok(Measurement { pairs: alone.into_iter().zip(beside).collect(), disk })
    }

    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.max(1))
    }

    /// Messages of the backlog.
    fn backlog(&self) -> u64 {
        self.backlog_mb.max(1) * MESSAGES_PER_MB
    }

    /// Senders as fast as the window lets them, and receivers that stay behind by the backlog.
    fn full_load(&self) -> Load {
        Load {
            senders: FULL_CONNECTIONS,
            receivers: FULL_CONNECTIONS,
            queues: FULL_CONNECTIONS,
            size: FULL_SIZE,
            durable: true,
            pace: Loop::Closed { window: FULL_WINDOW, max_backlog: Some(self.backlog()) },
            credit: FULL_WINDOW,
            starts_behind: self.backlog(),
            nice: self.nice,
            extent: Extent::Time { warm_up: Duration::ZERO, measured: Duration::ZERO },
        }
    }

    /// Sends at a steady pace on one connection; another one receives.
    fn sends(&self, running: &Running, namespace: &MeasuredNamespace) -> Fallible<Sends> {
        println!("  measuring `{}`, {} …", namespace.name, namespace.place);
        let load = Load {
            senders: 1,
            receivers: 1,
            queues: 1,
            size: SIZE,
            durable: true,
            pace: Loop::Open { rate: RATE },
            credit: 1_000,
            starts_behind: 0,
            nice: 0,
            extent: Extent::Time { warm_up: WARM_UP, measured: self.measured() },
        };
        Sends::of(&load.run(&peer(running, namespace.name))?)
    }

    fn sends_beside(
        &self,
        running: &Running,
        processes: Processes,
        namespace: &MeasuredNamespace,
        full: &Progress,
    ) -> Fallible<BesideLoad> {
        let used = || -> Fallible<_> { Ok((Usage::of(processes.broker)?, Usage::of(processes.generators)?)) };
        let (begin, counts, (broker, generators)) = (Instant::now(), full.counts(), used()?);
        let sends = self.sends(running, namespace)?;
        let (broker_now, generators_now) = used()?;
        let full = FullLoad {
            seconds: begin.elapsed().as_secs_f64(),
            counts: full.counts() - counts,
            broker: broker_now.since(broker),
            generators: generators_now.since(generators),
        };
        Ok(BesideLoad { sends, full })
    }

    /// The part of the report.
    pub(super) fn report(&self, measured: &Result<Vec<Measurement>, String>, reps: usize) -> String {
        let rows = match measured {
            Ok(all) => figures::rows(all),
            Err(error) => vec![vec![NAME.to_owned(), format!("no result: {error}")]],
        };
        let load = measured.as_ref().map(|all| figures::load_rows(all)).unwrap_or_default();
        format!(
            "Neighbours: {} durable sends a second of 1 KiB in one namespace, from the time a send was due to its outcome, {} s, alone\n\
             and beside another namespace at full load: {FULL_CONNECTIONS} + {FULL_CONNECTIONS} connections, messages of 64 KiB, window {FULL_WINDOW}, {} MB behind,\n\
             its generator at nice {}.\n\
             Medians of {}; the ratio is the median of the runs' own ratios. Broker, both generators and the disk are shared: \"sent\n\
             late\" is the delay of the generator itself, which had no core, and the last row is the disk without any broker.\n\n{}\n\n{}\n",
            thousands(u64::from(RATE)),
            self.measured().as_secs(),
            thousands(self.backlog_mb),
            self.nice,
            reps.max(1),
            table::markdown(&figures::HEADER, &rows).trim_end(),
            table::markdown(&figures::LOAD_HEADER, &load).trim_end(),
        )
    }
}

fn create_namespaces(running: &Running) -> Fallible<()> {
    let mut visitor = Visitor::connect(running.port())?;
    let measured = MEASURED.iter().map(|namespace| (namespace.name, namespace.shard));
    for (name, shard) in measured.chain([(NOISY, FULL_SHARD)]) {
        visitor.create(&format!("/$ferrybus/namespaces/{name}"), &format!("{{\"shard\": {shard}}}"))?;
    }
    Ok(())
}

fn peer(running: &Running, namespace: &str) -> Peer {
    let (user, password) = KEY;
    Peer {
        port: running.port(),
        address: "bench-{}".to_owned(),
        user: Some((user.to_owned(), password.to_owned())),
        namespace: Some(namespace.to_owned()),
        pid: None,
    }
}

#[cfg(test)]
mod tests;
