//! Memory of the process: what it uses, and the limit beyond which the shards refuse what would take more.
//!
//! Invariant: the shards are told when it begins, while it lasts and when it ends. Between full and not full lies a sixteenth of the limit, so
//! that the state does not change with each message.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use crate::{
    clock,
    executor::ExecutorItem,
    full_log::{FullLog, FullLogLine},
    shards::Shards,
};

/// The limit, and the way to measure.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// Bytes beyond which sends and new entities are refused; `None`: no limit.
    pub limit: Option<u64>,
    /// Gives the bytes that the process uses. The usual one asks the system; tests give their own.
    pub measure: fn() -> io::Result<u64>,
}

impl Default for ProcessMemory {
    fn default() -> Self {
        Self { limit: None, measure: resident_bytes }
    }
}

impl ProcessMemory {
    /// Bytes that the process uses, where the system tells it.
    pub(crate) fn used(self) -> Option<u64> {
        (self.measure)().ok()
    }

    /// Looks for the first time, and gives what looks again for as long as there is a broker; `None` without a limit. A limit
    /// that cannot be kept because the system tells no figure is an error.
    pub(crate) fn watch(self, shards: Shards) -> io::Result<Option<MemoryWatch>> {
        let Some(limit) = self.limit else { return Ok(None) };
        let used = (self.measure)()?;
        let mut watch = MemoryWatch {
            limit,
            measure: self.measure,
            shards,
            is_full: false,
            log: FullLog::default(),
            has_failed: false,
        };
        watch.take(clock::instant(), used);
        Ok(Some(watch))
    }
}

/// Tells the shards whether the memory is full.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    limit: u64,
    measure: fn() -> io::Result<u64>,
    shards: Shards,
    is_full: bool,
    log: FullLog,
    /// The last figure could not be read.
    has_failed: bool,
}

impl MemoryWatch {
    /// Looks again and again.
    pub(crate) async fn run(mut self) {
        let mut pause = LOOK_MIN;
        loop {
            tokio::time::sleep(pause).await;
            pause = match (self.measure)() {
                Ok(used) => {
                    self.has_failed = false;
                    self.take(clock::instant(), used);
                    if self.is_full { LOOK_WHILE_FULL } else { time_to_fill(self.limit, used) }
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.has_failed, true) {
                        warn!(%error, "the memory of the process cannot be measured: its limit is as it was");
                    }
                    LOOK_MAX
                }
            };
        }
    }

    /// Takes a figure.
    fn take(&mut self, now: Instant, used: u64) {
        let is_full = is_full(self.is_full, self.limit, used);
        // While it lasts, again and again: a shard that has been recovered meanwhile does not know it.
        if is_full || self.is_full {
            self.is_full = is_full;
            for shard in self.shards.all() {
                shard.push(ExecutorItem::MemoryFull(is_full));
            }
        }
        let limit = self.limit;
        match self.log.look(now, is_full) {
            Some(FullLogLine::Full) => warn!(
                used,
                limit,
                "the memory is full: sends and new entities are refused; let receivers empty the queues, or raise `max_memory`"
            ),
            Some(FullLogLine::StillFull { since, now }) => {
                let full_seconds = now.saturating_duration_since(since).as_secs();
                warn!(
                    used,
                    limit, full_seconds, "the memory is still full: sends and new entities are refused"
                );
            }
            Some(FullLogLine::Free) => {
                info!(used, limit, "the memory has room again: sends are accepted");
            }
            None => {}
        }
    }
}

/// Whether the memory is full, where it was full or not before: beyond the limit it is, and from fifteen sixteenths of it on it
/// is not.
const fn is_full(was_full: bool, limit: u64, used: u64) -> bool {
    if was_full { used > limit - limit / 16 } else { used > limit }
}

/// Time in which the process cannot grow up to its limit.
fn time_to_fill(limit: u64, used: u64) -> Duration {
    Duration::from_millis(limit.saturating_sub(used) / GROWTH_PER_MS).clamp(LOOK_MIN, LOOK_MAX)
}

/// Memory that the process has in RAM, the pages of its program included: the figure that a control group and the kernel
/// judge it by.
pub(crate) fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/self/statm"))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Most bytes by which the process grows in a millisecond: more than connections bring over loopback.
const GROWTH_PER_MS: u64 = 4 << 20;
/// Times between two looks.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_WHILE_FULL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
