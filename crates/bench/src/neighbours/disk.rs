//! The disk's own part: paced small writes, each synced, alone and beside large ones, without any broker.
//!
//! Invariant: times count from when a write was due; all that is due goes with one sync, as in any group commit.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::namespaces::{FULL_SIZE, SIZE};
use crate::Fallible;
use crate::relay::Journal;

/// Pause of the writer of large blocks after each sync, so that blocks gather for the next one.
const PAUSE: Duration = Duration::from_millis(1);

/// Times of the small writes in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DiskTimes {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// Bytes a second of the large blocks beside them.
    pub(super) beside: f64,
}

impl DiskTimes {
    /// Writes 1 KiB `rate` times a second for so long, while another thread writes so many bytes a second in large blocks.
    pub(super) fn measure(folder: &Path, rate: u32, spell: Duration, beside: f64) -> Fallible<Self> {
        let mut small = Journal::new(folder)?;
        let mut large = Journal::new(folder)?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writing = scope.spawn(|| write_blocks(&mut large, beside, &over));
            let times = write_paced(&mut small, rate, spell);
            over.store(true, Ordering::Relaxed);
            let beside = writing.join().map_err(|_| "a thread that writes has panicked")??;
            Ok(Self { beside, ..Self::of(times?) })
        })
    }

    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let us = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
        let at = |share: usize| us(times.get(times.len() * share / 100));
        Self { p50: at(50), p99: at(99), max: us(times.last()), beside: 0.0 }
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
