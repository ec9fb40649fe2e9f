//! The table of a run.
//!
//! Invariant: a table says on which machine, commit and settings it was made.

use std::fmt::Write as _;

use crate::broker::Broker;
use crate::limits::Limits;
use crate::measure::{Bench, Measured, short};
use crate::{Fallible, checkout, machine, table};

/// One row for each scenario and broker. The first broker's rows hold its advantage over each other.
pub(super) fn table(rows: &[Measured], brokers: &[&str]) -> String {
    let (first, peers) = brokers.split_first().map_or(("", brokers), |(first, peers)| (*first, peers));
    let versus: Vec<String> = peers.iter().map(|peer| format!("× {peer}")).collect();
    let fixed =
        ["scenario", "broker", "result", "CPU µs/msg", "p50 µs", "p99 µs", "p99.9 µs", "RSS MB", "of limit"];
    let header: Vec<&str> =
        fixed.into_iter().chain(versus.iter().map(String::as_str)).chain(["goal"]).collect();
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells = fixed_cells(row);
            let ours = row.broker == first;
            cells.extend(
                peers.iter().map(|peer| if ours { advantage(row, rows, peer) } else { String::new() }),
            );
            cells.push(if ours { row.goal.to_owned() } else { String::new() });
            cells
        })
        .collect();
    table::markdown(&header, &lines)
}

fn fixed_cells(row: &Measured) -> Vec<String> {
    let number = |value: Option<f64>| value.map(short).unwrap_or_default();
    let mut cells = vec![row.title.clone(), row.broker.clone(), row.result(), number(row.cpu_us)];
    match row.latency {
        Some(latency) => cells.extend(latency.iter().map(|time| format!("{time:.0}"))),
        None => cells.extend(std::iter::repeat_n(String::new(), 3)),
    }
    cells.push(number(row.rss_kb.map(|kb| kb / 1024.0)));
    cells.push(row.of_limit.clone().unwrap_or_default());
    cells
}

/// Factor by which the row is better than the peer's, in the value and in CPU.
fn advantage(row: &Measured, rows: &[Measured], peer: &str) -> String {
    let Some(other) = rows.iter().find(|other| other.broker == peer && other.title == row.title) else {
        return String::new();
    };
    if row.is_broken() || other.is_broken() {
        return String::new();
    }
    let (better, worse) =
        if row.higher_is_better { (row.value, other.value) } else { (other.value, row.value) };
    let ratio = |better: f64, worse: f64| (worse > 0.0).then(|| short(better / worse));
    let cpu = row.cpu_us.zip(other.cpu_us).and_then(|(ours, theirs)| ratio(theirs, ours));
    let value = ratio(better, worse).unwrap_or_default();
    cpu.map_or(value.clone(), |cpu| format!("{value}, CPU {cpu}"))
}

/// The scenarios of a run, below their settings and the limits of the machine.
pub(super) fn part(
    bench: &Bench,
    brokers: &[Broker],
    limits: &Limits,
    rows: &[Measured],
) -> Fallible<String> {
    let names: Vec<&str> = brokers.iter().map(|broker| broker.name.as_str()).collect();
    let settings: Vec<String> = brokers.iter().map(Broker::settings).collect();
    let (reps, seconds) = (bench.reps, bench.seconds);
    let mut part = format!("Settings: {}.\n", settings.join("; "));
    writeln!(
        part,
        "One disposition for each read of a receiver, 1 KiB bodies unless said otherwise; {seconds} s a run,"
    )?;
    writeln!(part, "median of {reps}. Latencies are of the acknowledgement, in paced runs end to end.")?;
    writeln!(part, "{limits}\n\n{}", table(rows, &names).trim_end())?;
    Ok(part)
}

/// The whole report: machine, commit and day above the parts.
pub(super) fn whole(parts: &[String]) -> String {
    let (today, commit) = (machine::today(), checkout::commit());
    format!("## {today}, commit {commit}\n\n{}.\n{}", machine::description(), parts.join("\n"))
}

#[cfg(test)]
mod tests;
