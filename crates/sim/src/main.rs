//! Runs the simulator over many seeds, or one.
//!
//! `sim --seeds N [--first S]` runs N seeds; `sim --seed S` replays one and prints its report. `--digests FILE` writes
//! the digests of the bytes of wire and journal, `--compare FILE` compares them with such a file: a change that must
//! change neither is proved by the file of the commit before it.

mod digests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use digests::Digests;
use sim::{Failure, Plan, Report, run, run_core_world};

const USAGE: &str = "usage: sim --seeds N [--first S] | sim --seed S, with --digests FILE | --compare FILE";

fn main() -> ExitCode {
    let outcome = Options::read(std::env::args().skip(1)).and_then(|options| simulate(&options));
    match outcome {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The words of the command line.
struct Options {
    first: u64,
    count: u64,
    digests: Option<PathBuf>,
    compare: Option<PathBuf>,
}

impl Options {
    fn read(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { first: 1, count: 1, digests: None, compare: None };
        while let Some(option) = given.next() {
            let value = given.next().ok_or_else(|| format!("`{option}` needs a value"))?;
            let number = || value.parse().map_err(|_| format!("`{value}` is not a number"));
            match option.as_str() {
                "--seeds" => options.count = number()?,
                "--first" => options.first = number()?,
                "--seed" => (options.first, options.count) = (number()?, 1),
                "--digests" => options.digests = Some(value.into()),
                "--compare" => options.compare = Some(value.into()),
                _ => return Err(format!("`{option}` is not known")),
            }
        }
        Ok(options)
    }
}

/// Sums over all runs.
#[derive(Default)]
struct Totals {
    failed: u64,
    sums: [u64; 5],
    events: BTreeMap<&'static str, u64>,
}

impl Totals {
    fn add(&mut self, report: &Report) {
        let row = [report.accepted, report.refused, report.delivered, report.crashes, report.disk_failures];
        self.sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        for (event, count) in &report.events {
            *self.events.entry(event).or_default() += count;
        }
    }

    fn print(&self) {
        let [accepted, refused, delivered, crashes, disk_failures] = self.sums;
        eprintln!(
            "{accepted} accepted, {refused} refused, {delivered} delivered, {crashes} crashes, {disk_failures} disk failures"
        );
        for (event, count) in &self.events {
            eprintln!("{count} {event}");
        }
    }
}

fn simulate(options: &Options) -> Result<ExitCode, String> {
    let mut totals = Totals::default();
    let mut digests = Digests::default();
    for Run { seed, wire, core } in runs(options) {
        for (world, ran) in [("wire", &wire), ("post", &core)] {
            match ran {
                Ok(report) => {
                    totals.add(report);
                    if options.count == 1 {
                        eprintln!("{world}: {report:?}");
                    }
                }
                Err(failure) => report_failure(seed, world, failure),
            }
        }
        totals.failed += u64::from(wire.is_err() || core.is_err());
        digests.add(seed, wire.as_ref().ok(), core.as_ref().ok());
    }
    totals.print();
    if let Some(path) = &options.digests {
        digests.write(path)?;
    }
    let differences =
        options.compare.as_ref().map_or_else(|| Ok(Vec::new()), |path| digests.compare(path))?;
    for difference in &differences {
        eprintln!("{difference}");
    }
    println_result(options.count - totals.failed, totals.failed);
    let is_good = totals.failed == 0 && differences.is_empty();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Both worlds under one seed.
struct Run {
    seed: u64,
    wire: Result<Report, Failure>,
    core: Result<Report, Failure>,
}

/// Runs all seeds on all cores. They come in the order of their numbers: it decides about the digests.
fn runs(options: &Options) -> Vec<Run> {
    let end = options.first.saturating_add(options.count);
    let next = AtomicU64::new(options.first);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < end);
    let work = || {
        let seeds = std::iter::from_fn(take);
        seeds.map(|seed| {
            let plan = Plan::from_seed(seed);
            Run { seed, wire: run(&plan), core: run_core_world(&plan) }
        })
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut runs: Vec<Run> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work().collect::<Vec<Run>>())).collect();
        // A panic is a failure of the simulator itself, and has been printed.
        workers.into_iter().flat_map(|worker| worker.join().expect("no run panics")).collect()
    });
    runs.sort_unstable_by_key(|run| run.seed);
    runs
}

fn report_failure(seed: u64, world: &str, failure: &Failure) {
    eprintln!("seed {seed}, {world}: {failure}\n  replay with: cargo xtask sim --seed {seed}");
}

#[expect(clippy::print_stdout, reason = "the result is this program's output")]
fn println_result(passed: u64, failed: u64) {
    println!("{passed} passed, {failed} failed");
}
