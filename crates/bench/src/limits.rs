//! Limits of the machine itself: its disk, loopback TCP, messages at a pace through a bare thread, wakes of idle cores.
//!
//! Invariant: each is measured in the same run as the brokers, on the disk that they use.

mod disk;
mod tcp;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use disk::{WritePosition, Writes};

use crate::Fallible;
use crate::relay::{self, Floor};
use crate::scenario::{Scenario, Work};
use crate::wake;

/// The figures that ratios are taken against.
#[derive(Debug, PartialEq)]
pub(super) struct Limits {
    /// A bare loop of append and fdatasync, a second.
    pub(super) append_syncs: f64,
    /// Median of one fdatasync into a preallocated file, in microseconds.
    pub(super) sync_us: f64,
    /// Best rate of fdatasynced large writes into a preallocated file, in bytes a second.
    pub(super) disk_bytes: f64,
    /// Loopback TCP one way in large writes, in bytes a second.
    pub(super) tcp_bytes: f64,
    /// A message at the pace of the paced scenarios through a thread that only passes it on, end to end.
    pub(super) relay: Floor,
    /// The same through one that writes and syncs it before.
    pub(super) durable_relay: Floor,
    /// Until a thread runs that was woken on a core with nothing to do, in microseconds.
    pub(super) wake_us: f64,
}

/// Time for which each loop is measured.
const SPELL: Duration = Duration::from_secs(1);
/// Bytes of a record that is appended, of a small one into preallocated space, and of large ones.
const APPENDED: usize = 4 << 10;
const SMALL: usize = 1 << 10;
const LARGE: [usize; 2] = [256 << 10, 1 << 20];
/// Messages a second through the bare relay, and how many.
const PACE: u32 = 10_000;
const PACED: usize = 20_000;
/// Wakes of an idle core.
const WAKES: usize = 1_000;

impl Limits {
    /// Measures on the disk of `folder`.
    pub(crate) fn measure(folder: &Path) -> Fallible<Self> {
        println!("measuring the machine");
        let large =
            LARGE.into_iter().map(|size| Writes::measure(folder, size, WritePosition::Preallocated, SPELL));
        let large = large.collect::<Fallible<Vec<_>>>()?;
        Ok(Self {
            append_syncs: Writes::measure(folder, APPENDED, WritePosition::End, SPELL)?.rate(),
            sync_us: Writes::measure(folder, SMALL, WritePosition::Preallocated, SPELL)?.median_us(),
            disk_bytes: large.iter().map(Writes::bytes).fold(0.0, f64::max),
            tcp_bytes: tcp::measure(SPELL)?,
            relay: relay::measure(PACE, PACED, None)?,
            durable_relay: relay::measure(PACE, PACED, Some(folder))?,
            wake_us: wake::measure(WAKES)?,
        })
    }

    /// The most messages a second that the machine would carry in `scenario`.
    pub(super) fn messages(&self, scenario: &Scenario) -> Option<f64> {
        let Work::Throughput { size, window, .. } = scenario.work else { return None };
        let size = f64::from(size);
        // Each message crosses the loopback twice.
        let wire = self.tcp_bytes / size / 2.0;
        Some(match (scenario.durable, window) {
            (false, _) => wire,
            (true, 1) => self.append_syncs,
            (true, _) => wire.min(self.disk_bytes / size),
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Machine limits: append + fdatasync {:.0}/s, ", self.append_syncs)?;
        write!(out, "fdatasync into preallocated space {:.0} µs (median), ", self.sync_us)?;
        write!(
            out,
            "disk {:.2} GB/s, loopback TCP {:.2} GB/s, ",
            self.disk_bytes / 1e9,
            self.tcp_bytes / 1e9
        )?;
        for (Floor { p50, p99 }, does) in [(self.relay, "passes"), (self.durable_relay, "syncs and passes")] {
            write!(
                out,
                "{PACE} messages/s through a thread that {does} them on p50 {p50:.0} µs, p99 {p99:.0} µs, "
            )?;
        }
        write!(out, "a wake of an idle core {:.0} µs (median).", self.wake_us)
    }
}

#[cfg(test)]
mod tests;
