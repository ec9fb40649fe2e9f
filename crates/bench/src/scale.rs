//! Messages a second of one, two and four shards: executors and journals alone, without connections.
//!
//! Threads of this process make publish commands and take the answers, each with a client in one shard, under the loads of
//! [`load`]. As in the server, a thread that submits runs the node unless another one does, and each journal is written
//! by a thread of its own. Beside each figure stands that of the disk alone: as many bare loops that write and sync as many bytes.
//! The parts that one shard cannot do at once are measured by themselves in the same run, and give the estimate for machines with
//! more cores.
//!
//! Invariant: a run in which a message was refused, or whose answer is missing or out of order, has no figure.

mod estimate;
mod generator;
mod load;
mod serial;
mod syncs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use broker_log::{Durability, JournalConfig};
use broker_server::{InProcessShards, ServerConfig};

use crate::Fallible;
use crate::figures::median;
use crate::measure::short;
use crate::process_usage::cpu;
use crate::table;
use estimate::{Machine, SerialParts};
use load::{LOADS, Load};

/// Name for `--scenario`.
pub(super) const NAME: &str = "scale";

/// Numbers of shards that are measured.
const SHARDS: [u16; 3] = [1, 2, 4];
/// Smallest ratio of two shards to one on two cores.
const GOAL: f64 = 1.6;
/// Cores that are estimated, with a shard for each. The first are as many as were measured, to compare.
const CORES: [u16; 3] = [2, 8, 32];

const WARM_UP: Duration = Duration::from_secs(1);

/// Arguments of the scenario.
pub(super) struct Scale {
    /// Folder of the journals, which are removed at the end.
    pub(super) folder: PathBuf,
    /// Measured seconds of each number of shards.
    pub(super) seconds: u64,
}

/// One run of one number of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Throughput {
    messages_a_second: f64,
    /// CPU of the process for each message, the generators' included.
    cpu_us: f64,
    /// Messages that one sync has made durable, of all journals.
    messages_a_sync: f64,
    /// Messages a second that as many bare loops write and sync, as many bytes each time as the journals.
    disk_messages_a_second: f64,
}

/// One run of everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurement {
    /// Of each of [`LOADS`], in the order of [`SHARDS`].
    throughputs: [Vec<Throughput>; LOADS.len()],
    serial: SerialParts,
    /// For each of [`CORES`], syncs a second of as many journals at once.
    syncs: Vec<f64>,
}

impl Scale {
    /// Measures `reps` times, every number of shards in turn.
    pub(super) fn run(&self, reps: usize) -> Result<Vec<Measurement>, String> {
        let mut all = Vec::new();
        for rep in 1..=reps.max(1) {
            println!("{NAME}, {rep} of {} …", reps.max(1));
            let measured = self.measure();
            let removed = self.remove_folder();
            let measurement =
                measured.and_then(|done| removed.map(|()| done)).map_err(|error| error.to_string())?;
            for load in LOADS {
                for row in rows(std::slice::from_ref(&measurement), load) {
                    println!("  {load:?}: {}", row.join(" | "));
                }
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
        let mut throughputs = LOADS.map(|_| Vec::new());
        for (load, of_load) in LOADS.into_iter().zip(&mut throughputs) {
            for shards in SHARDS {
                of_load.push(self.throughput(shards, load)?);
            }
        }
        self.remove_folder()?;
        let mut done = Measurement { throughputs, ..Measurement::default() };
        // One sync makes as much durable as with one shard.
        let messages_a_sync = done.of(Load::Full).first().map_or(1.0, |one| one.messages_a_sync);
        let batches = messages_a_sync / f64::from(Load::Full.batch());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let batches = batches.round().max(1.0) as u32;
        done.serial = serial::measure(&self.folder, batches, self.measured())?;
        self.remove_folder()?;
        std::fs::create_dir_all(&self.folder)?;
        let bytes_a_sync = done.serial.bytes_a_sync;
        let bytes_a_message = bytes_a_sync / done.serial.messages_a_sync;
        for of_load in &mut done.throughputs {
            for (shards, one) in SHARDS.into_iter().zip(of_load) {
                let syncs = syncs::measure(&self.folder, shards, one.messages_a_sync * bytes_a_message)?;
                one.disk_messages_a_second = syncs * one.messages_a_sync;
            }
        }
        let syncs = CORES.into_iter().map(|cores| syncs::measure(&self.folder, cores, bytes_a_sync));
        done.syncs = syncs.collect::<Fallible<Vec<f64>>>()?;
        Ok(done)
    }

    fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds.max(1))
    }

    fn throughput(&self, shards: u16, load: Load) -> Fallible<Throughput> {
        println!("  {load:?}, shards: {shards} …");
        self.remove_folder()?;
        throughput(&self.folder, (shards, load), WARM_UP, self.measured())
    }

    /// The part of the report.
    pub(super) fn report(&self, measured: &Result<Vec<Measurement>, String>, reps: usize) -> String {
        let header = [
            "shards",
            "messages/s",
            "× one shard",
            "goal",
            "CPU µs/msg",
            "messages a sync",
            "the disk alone",
            "× one loop",
        ];
        let part = |load: Load| {
            let rows = match measured {
                Ok(all) => rows(all, load),
                Err(error) => vec![vec![NAME.to_owned(), format!("no result: {error}")]],
            };
            format!("{load:?}: {}.\n\n{}\n", load.explanation(), table::markdown(&header, &rows))
        };
        let estimates = measured.as_ref().map(|all| estimates(all)).unwrap_or_default();
        format!(
            "Scale: publish commands of 1 KiB through executors and journals with fsync; {} s each, medians of {}; the ratio is the median of\n\
             the runs' own ratios. CPU is that of the whole process. The disk alone: messages/s of as many bare loops that write and\n\
             sync as many bytes.\n\n{}{estimates}",
            self.measured().as_secs(),
            reps.max(1),
            LOADS.map(part).concat(),
        )
    }
}

fn config(folder: &Path, shards: u16) -> ServerConfig {
    let journal = JournalConfig { durability: Durability::Fsync, ..JournalConfig::default() };
    ServerConfig { data_dir: folder.to_owned(), journal, shards, ..ServerConfig::default() }
}

/// Runs so many shards under a load.
fn throughput(
    folder: &Path,
    (shards, load): (u16, Load),
    warm_up: Duration,
    measured: Duration,
) -> Fallible<Throughput> {
    let all = InProcessShards::start(&config(folder, shards))?;
    let (accepted, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let syncs =
        || -> u64 { (0..shards).filter_map(|shard| all.journal(shard)).map(|stats| stats.syncs).sum() };
    let throughput = thread::scope(|scope| -> Fallible<Throughput> {
        let mut generators = Vec::new();
        for number in 0..load.threads(shards) {
            let client = all.client(number % shards).ok_or("a shard is missing")?;
            let (accepted, over) = (&accepted, &over);
            generators.push(scope.spawn(move || {
                let end = generator::run(&client, (number, load), accepted, over);
                // Without one of them the figure would be another one.
                over.store(true, Ordering::Relaxed);
                end.map_err(|error| error.to_string())
            }));
        }
        thread::sleep(warm_up);
        let used = || -> Fallible<_> {
            Ok((Instant::now(), accepted.load(Ordering::Relaxed), cpu(std::process::id())?))
        };
        let (syncs_before, (begin, count, cpu)) = (syncs(), used()?);
        thread::sleep(measured);
        let (end, count_now, cpu_now) = used()?;
        let syncs = syncs().saturating_sub(syncs_before);
        over.store(true, Ordering::Relaxed);
        for generator in generators {
            generator.join().map_err(|_| "a generator has panicked")??;
        }
        Throughput::of(end - begin, count_now - count, cpu_now.saturating_sub(cpu), syncs)
    })?;
    if !all.stop() {
        return Err("a journal has failed".into());
    }
    Ok(throughput)
}

impl Throughput {
    #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in a run")]
    fn of(elapsed: Duration, messages: u64, cpu: Duration, syncs: u64) -> Fallible<Self> {
        if messages == 0 || syncs == 0 {
            return Err("no message became durable".into());
        }
        let messages = messages as f64;
        Ok(Self {
            messages_a_second: messages / elapsed.as_secs_f64(),
            cpu_us: cpu.as_secs_f64() * 1e6 / messages,
            messages_a_sync: messages / syncs as f64,
            disk_messages_a_second: 0.0,
        })
    }
}

/// Medians of each number of shards.
fn rows(all: &[Measurement], load: Load) -> Vec<Vec<String>> {
    let row = |(index, shards): (usize, u16)| {
        let of = |figure: fn(&Throughput) -> f64| {
            median(all.iter().filter_map(|one| one.of(load).get(index)).map(figure))
        };
        let ratio_of = |figure| median(all.iter().filter_map(|one| one.ratio(load, index, figure)));
        let ratio = ratio_of(|one| one.messages_a_second);
        let goal = match shards {
            2 if ratio >= GOAL => format!("≥ {GOAL}"),
            2 => format!("≥ {GOAL}: missed"),
            _ => String::new(),
        };
        vec![
            shards.to_string(),
            format!("{:.0}", of(|one| one.messages_a_second)),
            format!("{ratio:.2}"),
            goal,
            short(of(|one| one.cpu_us)),
            format!("{:.0}", of(|one| one.messages_a_sync)),
            format!("{:.0}", of(|one| one.disk_messages_a_second)),
            format!("{:.2}", ratio_of(|one| one.disk_messages_a_second)),
        ]
    };
    SHARDS.into_iter().enumerate().map(row).collect()
}

impl Measurement {
    /// Throughputs under a load, in the order of [`SHARDS`].
    fn of(&self, load: Load) -> &[Throughput] {
        let all = LOADS.iter().zip(&self.throughputs);
        all.filter(|(of, _)| **of == load).map(|(_, of_load)| of_load.as_slice()).next().unwrap_or_default()
    }

    /// Ratio of a figure of one number of shards to that of one shard in the same run.
    fn ratio(&self, load: Load, index: usize, figure: fn(&Throughput) -> f64) -> Option<f64> {
        let throughputs = self.of(load);
        let one = figure(throughputs.first()?);
        (one > 0.0).then_some(figure(throughputs.get(index)?) / one)
    }
}

/// The serial parts, the formula and the estimates.
fn estimates(all: &[Measurement]) -> String {
    let of = |figure: fn(&Measurement) -> f64| median(all.iter().map(figure));
    let serial = SerialParts {
        node_us: of(|one| one.serial.node_us),
        write_us: of(|one| one.serial.write_us),
        messages_a_sync: of(|one| one.serial.messages_a_sync),
        bytes_a_sync: of(|one| one.serial.bytes_a_sync),
    };
    let cpu_us = of(|one| one.of(Load::Full).first().map_or(0.0, |one| one.cpu_us));
    let machines = CORES.into_iter().enumerate().map(|(index, cores)| Machine {
        cores,
        cpu_us,
        syncs: median(all.iter().filter_map(|one| one.syncs.get(index).copied())),
    });
    estimate::report(serial, &machines.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
