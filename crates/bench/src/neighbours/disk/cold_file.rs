//! A file that is read past what the system keeps in memory, as the readers of a cold backlog read.
//!
//! Invariant: nothing of it is in the system's cache when a pass through it begins.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

/// The file.
pub(super) struct ColdFile {
    file: File,
    /// Number of the next block.
    next: AtomicU64,
}

impl ColdFile {
    /// Made in `folder` and nowhere to be seen: it goes with the process.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let path = folder.join("cold");
        let file = File::create_new(&path)?;
        std::fs::remove_file(&path)?;
        let block = vec![7; BLOCK];
        for number in 0..BLOCKS {
            file.write_all_at(&block, number * BLOCK as u64)?;
        }
        file.sync_all()?;
        // No more than what is asked for is read.
        fadvise(&file, 0, None, Advice::Random)?;
        Ok(Self { file, next: AtomicU64::new(0) })
    }

    /// Reads so many bytes a second until it is `over`, beside other threads; says how many it were.
    pub(super) fn read(&self, bytes_a_second: f64, over: &AtomicBool) -> io::Result<f64> {
        let (begin, mut block, mut read) = (Instant::now(), vec![0; BLOCK], 0.0);
        #[expect(clippy::cast_precision_loss, reason = "a block is small")]
        let size = BLOCK as f64;
        while !over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % BLOCKS;
            if number == 0 {
                fadvise(&self.file, 0, None, Advice::DontNeed)?;
            }
            self.file.read_exact_at(&mut block, number * BLOCK as u64)?;
            read += size;
            let due = Duration::from_secs_f64(read / bytes_a_second);
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        Ok(read / begin.elapsed().as_secs_f64())
    }
}

/// Bytes of one read: the broker's largest window.
const BLOCK: usize = 256 << 10;
/// Blocks of the file.
const BLOCKS: u64 = 1_024;
