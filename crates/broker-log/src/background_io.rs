//! Disk requests beside the writes: at most one is outstanding, and spares are prepared as fast as the writing needs.
//!
//! Invariant: while large writes go on nothing is prepared; the disk's bandwidth belongs to them.

use crate::segment_pool::PreparePriority;

/// State of the requests that no caller waits for.
#[derive(Debug)]
pub(crate) struct BackgroundIo {
    is_outstanding: bool,
    /// Nothing was written since the opening or the last [`BackgroundIo::on_idle`]: there is time to prepare.
    is_idle: bool,
    /// Size of the last write.
    write_bytes: u64,
}

impl BackgroundIo {
    pub(crate) fn new() -> Self {
        Self { is_outstanding: false, is_idle: true, write_bytes: 0 }
    }

    pub(crate) fn is_outstanding(&self) -> bool {
        self.is_outstanding
    }

    /// A request is handed out.
    pub(crate) fn begin(&mut self) {
        self.is_outstanding = true;
    }

    /// Its result is here.
    pub(crate) fn finish(&mut self) {
        self.is_outstanding = false;
    }

    /// Nothing has happened for a while.
    pub(crate) fn on_idle(&mut self) {
        self.is_idle = true;
    }

    /// A write of so many bytes is handed out.
    pub(crate) fn on_write(&mut self, bytes: u64) {
        self.is_idle = false;
        self.write_bytes = bytes;
    }

    /// Whether a sync of new space would cost more than the writing.
    pub(crate) fn writes_are_small(&self) -> bool {
        self.write_bytes < LARGE_WRITE_BYTES
    }

    /// Priority of preparing spare segments.
    pub(crate) fn prepare_priority(&self) -> PreparePriority {
        match self.is_idle {
            true => PreparePriority::Background,
            false if self.writes_are_small() => PreparePriority::KeepUp,
            false => PreparePriority::Stopped,
        }
    }
}

/// Writes this long gain nothing from space that was written ahead: the disk has to take the bytes twice, and what
/// a sync of new space costs more is spread over many records.
const LARGE_WRITE_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
