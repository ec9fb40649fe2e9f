//! Runs the simulator over many seeds, or one.
//!
//! `sim --seeds N [--first S]` runs N seeds; `sim --seed S` replays one and prints its report.

use std::{collections::BTreeMap, process::ExitCode};

use sim::{Plan, run, run_post};

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)) {
        Ok((first, count)) => simulate(first, count),
        Err(problem) => {
            eprintln!("error: {problem}\nusage: sim --seeds N [--first S] | sim --seed S");
            ExitCode::from(2)
        }
    }
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<(u64, u64), String> {
    let (mut first, mut count) = (1, 1);
    while let Some(option) = given.next() {
        let number = given.next().ok_or_else(|| format!("`{option}` needs a number"))?;
        let number: u64 = number.parse().map_err(|_| format!("`{number}` is not a number"))?;
        match option.as_str() {
            "--seeds" => count = number,
            "--first" => first = number,
            "--seed" => (first, count) = (number, 1),
            _ => return Err(format!("`{option}` is not known")),
        }
    }
    Ok((first, count))
}

fn simulate(first: u64, count: u64) -> ExitCode {
    let mut failed = 0;
    let mut total = [0_u64; 5];
    let mut events: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in first..first.saturating_add(count) {
        let plan = Plan::from_seed(seed);
        let mut sound = true;
        for (world, ran) in [("wire", run(&plan)), ("post", run_post(&plan))] {
            match ran {
                Ok(report) => {
                    let row = [
                        report.accepted,
                        report.refused,
                        report.delivered,
                        report.crashes,
                        report.disk_failures,
                    ];
                    for (event, count) in &report.events {
                        *events.entry(event).or_default() += count;
                    }
                    total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                    if count == 1 {
                        eprintln!("{world}: {report:?}");
                    }
                }
                Err(failure) => {
                    sound = false;
                    eprintln!(
                        "seed {seed}, {world}: {failure}\n  replay with: cargo xtask sim --seed {seed}"
                    );
                }
            }
        }
        failed += u64::from(!sound);
    }
    let [accepted, refused, delivered, crashes, disk_failures] = total;
    eprintln!(
        "{accepted} accepted, {refused} refused, {delivered} delivered, {crashes} crashes, {disk_failures} disk failures"
    );
    for (event, count) in events {
        eprintln!("{count} {event}");
    }
    println_result(count - failed, failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::print_stdout, reason = "the result is this program's output")]
fn println_result(passed: u64, failed: u64) {
    println!("{passed} passed, {failed} failed");
}
