//! Disk space that the journal may take: what the disk has free, the reserve, and the configured limit.
//!
//! Invariant: while the reserve is in use the storage counts as full, and stays so until a measurement or a freed
//! segment says otherwise.

use std::cell::Cell;

use crate::JournalConfig;

/// Limits of the journal's space and the last measurement of the disk.
#[derive(Debug)]
pub(crate) struct DiskSpace {
    reserve_bytes: u64,
    /// Most bytes that the journal may use.
    max_bytes: Option<u64>,
    /// Free bytes of the disk when it was last measured.
    free_bytes: Option<u64>,
    /// A caller has been told that the storage is full since the last measurement.
    full_reported: Cell<bool>,
}

impl DiskSpace {
    pub(crate) fn new(config: &JournalConfig, free_bytes: Option<u64>) -> Self {
        Self {
            reserve_bytes: config.reserve_bytes,
            max_bytes: config.max_disk_bytes,
            free_bytes,
            full_reported: Cell::new(false),
        }
    }

    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    pub(crate) fn on_measured(&mut self, free_bytes: u64) {
        self.free_bytes = Some(free_bytes);
    }

    /// Whether the reserve is in use, with `used` bytes in segments and `spare` bytes in files that wait to be used, which are as
    /// good as free ones.
    pub(crate) fn is_full(&self, used: u64, spare: u64) -> bool {
        let disk_full = self.free_bytes.is_some_and(|free| free.saturating_add(spare) < self.reserve_bytes);
        let limit_reached = self.max_bytes.is_some_and(|limit| {
            let reserve = self.reserve_bytes.min(limit / 4);
            used > limit - reserve
        });
        disk_full || limit_reached
    }

    /// The same for a caller that refuses work when it is so: the disk is measured again soon.
    pub(crate) fn report_full(&self, used: u64, spare: u64) -> bool {
        let full = self.is_full(used, spare);
        if full {
            self.full_reported.set(true);
        }
        full
    }

    /// Whether the disk should be measured, because a caller was told that it is full.
    pub(crate) fn take_measurement_due(&self) -> bool {
        self.full_reported.take()
    }

    /// Whether the reserve would be in use soon, with so many bytes in files: what is kept beyond need is better given back.
    pub(crate) fn is_tight(&self, file_bytes: u64) -> bool {
        let on_disk = self.free_bytes.is_some_and(|free| free / 2 < self.reserve_bytes);
        on_disk || self.max_bytes.is_some_and(|limit| file_bytes > limit)
    }

    /// Whether a further file of `segment_bytes`, the last of `files`, leaves the reserve whole.
    pub(crate) fn has_room_for_file(&self, files: u64, segment_bytes: u64) -> bool {
        let on_disk =
            self.free_bytes.is_none_or(|free| free >= self.reserve_bytes.saturating_add(segment_bytes));
        on_disk && self.max_bytes.is_none_or(|limit| files.saturating_mul(segment_bytes) <= limit)
    }
}

#[cfg(test)]
mod tests;
