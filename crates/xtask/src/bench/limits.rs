//! What the machine itself allows: disk and loopback as the generator's sibling `limits` measures them, messages at a pace and
//! wakes as measured here.
//!
//! Invariant: a limit that could not be read is absent, never zero.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::relay::{self, Floor};
use super::scenario::{Scenario, Work};
use super::wake;
use crate::Fallible;

/// The figures that ratios are taken against.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// A bare loop of append and fdatasync, a second.
    pub(super) append_syncs: Option<f64>,
    /// Median of one fdatasync into a preallocated file, in microseconds.
    pub(super) sync_us: Option<f64>,
    /// Best rate of fdatasynced large writes into a preallocated file, in bytes a second.
    pub(super) disk_bytes: Option<f64>,
    /// Loopback TCP one way in large writes, in bytes a second.
    pub(super) tcp_bytes: Option<f64>,
    /// A message at the pace of the paced scenarios through a thread that only passes it on, end to end.
    pub(super) relay: Option<Floor>,
    /// The same through one that writes and syncs it before.
    pub(super) durable_relay: Option<Floor>,
    /// Until a thread runs that was woken on a core with nothing to do, in microseconds.
    pub(super) wake_us: Option<f64>,
}

/// Seconds for each of its measurements.
const SECONDS: &str = "1";
/// Messages a second through the bare relay, and how many.
const PACE: u32 = 10_000;
const PACED: usize = 20_000;
/// Wakes of an idle core.
const WAKES: usize = 1_000;

impl Limits {
    /// Measures on the disk of `folder`. Without the sibling nothing is known.
    pub(super) fn measure(load: &Path, folder: &Path) -> Fallible<Self> {
        let relay = Some(relay::measure(PACE, PACED, None)?);
        let durable_relay = Some(relay::measure(PACE, PACED, Some(folder))?);
        let wake_us = Some(wake::measure(WAKES)?);
        let program = load.with_file_name("limits");
        if !program.is_file() {
            println!("no `limits` beside the generator: few ratios to the machine");
            return Ok(Self { relay, durable_relay, wake_us, ..Self::default() });
        }
        println!("measuring the machine");
        let disk = output(Command::new(&program).arg("disk").arg(folder).arg(SECONDS))?;
        let tcp = output(Command::new(&program).args(["tcp", SECONDS]))?;
        Ok(Self { relay, durable_relay, wake_us, ..Self::read(&disk, &tcp) })
    }

    fn read(disk: &str, tcp: &str) -> Self {
        let best = disk
            .lines()
            .filter(|line| line.starts_with("overwrite + fdatasync"))
            .filter_map(|line| before(line, "MB/s"))
            .fold(None, |best: Option<f64>, rate| Some(best.map_or(rate, |best| best.max(rate))));
        let small = row(disk, "overwrite + fdatasync", "rec    1024");
        Self {
            append_syncs: row(disk, "append + fdatasync", "rec").and_then(|line| before(line, "ops/s")),
            sync_us: small.and_then(|line| after(line, "p50")),
            disk_bytes: best.map(|rate| rate * 1e6),
            tcp_bytes: row(tcp, "tcp bulk", " 65536 byte")
                .and_then(|line| before(line, "GB/s"))
                .map(|rate| rate * 1e9),
            relay: None,
            durable_relay: None,
            wake_us: None,
        }
    }

    /// The most messages a second that the machine would carry in `scenario`.
    pub(super) fn messages(&self, scenario: &Scenario) -> Option<f64> {
        let Work::Throughput { size, window, .. } = scenario.work else { return None };
        let size = f64::from(size);
        // Each message crosses the loopback twice.
        let wire = self.tcp_bytes? / size / 2.0;
        match (scenario.durable, window) {
            (false, _) => Some(wire),
            (true, 1) => self.append_syncs,
            (true, _) => Some(wire.min(self.disk_bytes? / size)),
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.append_syncs.map(|rate| format!("append + fdatasync {rate:.0}/s")));
        words.extend(
            self.sync_us.map(|time| format!("fdatasync into preallocated space {time:.0} µs (median)")),
        );
        words.extend(self.disk_bytes.map(|rate| format!("disk {:.2} GB/s", rate / 1e9)));
        words.extend(self.tcp_bytes.map(|rate| format!("loopback TCP {:.2} GB/s", rate / 1e9)));
        for (floor, does) in [(self.relay, "passes"), (self.durable_relay, "syncs and passes")] {
            words.extend(floor.map(|Floor { p50, p99 }| {
                format!(
                    "{PACE} messages/s through a thread that {does} them on p50 {p50:.0} µs, p99 {p99:.0} µs"
                )
            }));
        }
        words.extend(self.wake_us.map(|time| format!("a wake of an idle core {time:.0} µs (median)")));
        if words.is_empty() {
            words.push("not measured".to_owned());
        }
        write!(out, "Machine limits: {}.", words.join(", "))
    }
}

fn output(command: &mut Command) -> Fallible<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn row<'a>(text: &'a str, start: &str, part: &str) -> Option<&'a str> {
    text.lines().find(|line| line.starts_with(start) && line.contains(part))
}

/// The number before the word `unit`.
fn before(line: &str, unit: &str) -> Option<f64> {
    line.split_once(unit)?.0.split_whitespace().last()?.parse().ok()
}

/// The number after the word `name`.
fn after(line: &str, name: &str) -> Option<f64> {
    line.split_once(name)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
