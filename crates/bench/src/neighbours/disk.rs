//! The disk's own part: paced small writes, each synced, alone and beside large writes and reads, without any broker.
//!
//! Invariant: times count from when a write was due; all that is due goes with one sync, as in any group commit. What is read
//! is in no cache of the system.

mod cold_file;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::namespaces::{FULL_SIZE, SIZE};
use crate::Fallible;
use crate::relay::Journal;
use cold_file::ColdFile;

/// Pause of the writer of large blocks after each sync, so that blocks gather for the next one.
const PAUSE: Duration = Duration::from_millis(1);

/// Times of the small writes in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DiskTimes {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// Bytes a second beside them.
    pub(super) beside: Traffic,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) written: f64,
    pub(super) read: f64,
}

impl DiskTimes {
    /// Writes 1 KiB `rate` times a second for so long, while other threads write and read so many bytes a second in large
    /// blocks.
    pub(super) fn measure(folder: &Path, rate: u32, spell: Duration, beside: Traffic) -> Fallible<Self> {
        let mut small = Journal::new(folder)?;
        let mut large = Journal::new(folder)?;
        let cold = if beside.read > 0.0 { Some(ColdFile::new(folder)?) } else { None };
        let over = AtomicBool::new(false);
        let over = &over;
        thread::scope(|scope| {
            let writing = scope.spawn(|| write_blocks(&mut large, beside.written, over));
            // As many threads as read for a shard.
            let reader = |cold| scope.spawn(move || ColdFile::read(cold, beside.read / 2.0, over));
            let reading: Vec<_> = cold.iter().flat_map(|cold| [cold, cold]).map(reader).collect();
            let times = write_paced(&mut small, rate, spell);
            over.store(true, Ordering::Relaxed);
            let panicked = |_| "a thread of the disk's load has panicked";
            let mut reached = Traffic { written: writing.join().map_err(panicked)??, read: 0.0 };
            for reading in reading {
                reached.read += reading.join().map_err(panicked)??;
            }
            Ok(Self { beside: reached, ..Self::of(times?) })
        })
    }

    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let at = |share: usize| us(times.get(times.len() * share / 100));
        Self { p50: at(50), p99: at(99), max: us(times.last()), beside: Traffic::default() }
    }
}

fn write_paced(journal: &mut Journal, rate: u32, spell: Duration) -> std::io::Result<Vec<Duration>> {
    let interval = Duration::from_secs(1) / rate.max(1);
    let (begin, mut times, mut due) = (Instant::now(), Vec::new(), Duration::ZERO);
    while due < spell {
        thread::sleep(due.saturating_sub(begin.elapsed()));
        let (mut waiting, now) = (Vec::new(), begin.elapsed());
        while due <= now && due < spell {
            waiting.push(due);
            due += interval;
        }
        journal.keep(&vec![7; SIZE * waiting.len()])?;
        let done = begin.elapsed();
        times.extend(waiting.into_iter().map(|due| done.saturating_sub(due)));
    }
    Ok(times)
}

/// Writes so many bytes a second until it is `over`; says how many it were.
fn write_blocks(journal: &mut Journal, bytes_a_second: f64, over: &AtomicBool) -> std::io::Result<f64> {
    let (begin, block, mut written) = (Instant::now(), vec![7; FULL_SIZE], 0.0);
    #[expect(clippy::cast_precision_loss, reason = "a block is small")]
    let size = FULL_SIZE as f64;
    while !over.load(Ordering::Relaxed) {
        let mut gathered = 0;
        while written + size <= begin.elapsed().as_secs_f64() * bytes_a_second && gathered < BLOCKS_MAX {
            journal.append(&block)?;
            written += size;
            gathered += 1;
        }
        if gathered > 0 {
            journal.sync()?;
        }
        thread::sleep(PAUSE);
    }
    Ok(written / begin.elapsed().as_secs_f64())
}

/// Blocks that go with one sync at most.
const BLOCKS_MAX: u32 = 64;
