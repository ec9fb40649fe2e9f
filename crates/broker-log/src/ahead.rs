//! Reads records back from disk, more than was asked for when the reader goes on in order.
//!
//! Invariant: at most [`WINDOWS_MAX`] windows are held; what they hold is durable and never changes.

use std::io;

use bytes::Bytes;

use crate::{Disk, segments::Segment};

/// Stretches of the journal that were read from disk.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    windows: Vec<Window>,
    reads: u64,
}

#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Bytes,
    /// Number of the read that used it last.
    used: u64,
    /// How much to read when a reader goes on behind this window.
    next_bytes: u64,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Ahead {
    /// `length` bytes at `at` in `segment`, of which everything before `readable` is on disk and final.
    /// `None`: the file ends before.
    pub(crate) fn read(
        &mut self,
        disk: &dyn Disk,
        segment: &Segment,
        at: u64,
        length: u64,
        readable: u64,
    ) -> io::Result<Option<Bytes>> {
        self.reads += 1;
        let reads = self.reads;
        let held = self.windows.iter_mut().find(|window| window.start <= at && at + length <= window.end());
        if let Some(window) = held {
            window.used = reads;
            return Ok(part(window, at, length));
        }
        let goes_on = |window: &Window| window.start < at && at <= window.end() + SKIP_BYTES;
        let before = self.windows.iter().position(goes_on);
        let window_bytes = match before {
            Some(index) => self.windows.swap_remove(index).next_bytes,
            None => WINDOW_BYTES_FIRST,
        };
        let end = (at + length.max(window_bytes)).min(readable.max(at + length));
        let mut buffer = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX)];
        let read = disk.read_at(segment.file, at - segment.base, &mut buffer)?;
        buffer.truncate(read);
        let window = Window {
            start: at,
            bytes: buffer.into(),
            used: reads,
            next_bytes: (window_bytes * 4).min(WINDOW_BYTES_MAX),
        };
        let found = part(&window, at, length);
        self.keep(window);
        Ok(found)
    }

    fn keep(&mut self, window: Window) {
        if self.windows.len() >= WINDOWS_MAX
            && let Some(oldest) =
                (0..self.windows.len()).min_by_key(|index| self.windows.get(*index).map(|window| window.used))
        {
            self.windows.swap_remove(oldest);
        }
        self.windows.push(window);
    }
}

fn part(window: &Window, at: u64, length: u64) -> Option<Bytes> {
    let start = usize::try_from(at - window.start).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= window.bytes.len()).then(|| window.bytes.slice(start..end))
}

/// As many readers can go on side by side, each in its own queue.
const WINDOWS_MAX: usize = 16;
/// What is read around a single record: a page or four cost the disk the same as one.
const WINDOW_BYTES_FIRST: u64 = 16 << 10;
/// What is read at once for a reader that goes on: large enough to hide the call, small enough for the cache.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// A reader goes on when it skips at most this much: records of other queues lie between its own.
const SKIP_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
