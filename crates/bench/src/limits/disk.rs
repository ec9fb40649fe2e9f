//! A bare loop of writes and syncs: no journal can do more of them one after the other.
//!
//! Invariant: each write is synced before the next begins.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Fallible;

/// Bytes of the file that is written over again and again.
const SPACE: u64 = 256 << 20;
const PIECE: usize = 1 << 20;

/// Position of the writes in their file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WritePosition {
    /// Behind the end of the file, so that each sync writes its new length too.
    End,
    /// Into space that has been written before.
    Preallocated,
}

/// Times of one loop.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    size: usize,
    times: Vec<Duration>,
}

impl Writes {
    /// Writes `size` bytes and syncs them, for as long as `spell`, in a file of `folder` that goes with the process.
    pub(super) fn measure(
        folder: &Path,
        size: usize,
        place: WritePosition,
        spell: Duration,
    ) -> Fallible<Self> {
        let path = folder.join("limits");
        let file = File::create_new(&path)?;
        std::fs::remove_file(&path)?;
        if place == WritePosition::Preallocated {
            let filler = vec![1; PIECE];
            for at in (0..SPACE).step_by(PIECE) {
                file.write_all_at(&filler, at)?;
            }
            file.sync_all()?;
        }
        let (record, mut at, mut times) = (vec![b'x'; size], 0, Vec::new());
        let begin = Instant::now();
        while begin.elapsed() < spell {
            let before = Instant::now();
            file.write_all_at(&record, at)?;
            file.sync_data()?;
            times.push(before.elapsed());
            at += size as u64;
            if place == WritePosition::Preallocated && at + size as u64 > SPACE {
                at = 0;
            }
        }
        Ok(Self { size, times })
    }

    /// Writes a second.
    pub(super) fn rate(&self) -> f64 {
        let all: Duration = self.times.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "nobody syncs 2^52 times in seconds")]
        let count = self.times.len() as f64;
        if all.is_zero() { 0.0 } else { count / all.as_secs_f64() }
    }

    /// Bytes a second.
    pub(super) fn bytes(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
        let size = self.size as f64;
        self.rate() * size
    }

    /// Median of a write with its sync, in microseconds.
    pub(super) fn median_us(mut self) -> f64 {
        self.times.sort_unstable();
        self.times.get(self.times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }
}
