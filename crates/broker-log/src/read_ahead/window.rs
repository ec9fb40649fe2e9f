//! A stretch of the journal that was read from disk.
//!
//! Invariant: what it holds is durable and never changes.

use bytes::Bytes;

use super::{asked::WindowPlan, reader::Reader};

/// One stretch.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that is so or not")]
pub(super) struct Window {
    pub(super) reader: Reader,
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    /// Number of the read that used it last.
    pub(super) used: u64,
    pub(super) requested_bytes: u64,
    /// Reads that it was used for, and their bytes.
    pub(super) served: u64,
    pub(super) served_bytes: u64,
    /// Bytes of the longest of them.
    pub(super) longest: u64,
    /// Whether of the window before it so much was wanted that it was worth its memory.
    pub(super) follows_worthy: bool,
    /// It was read ahead of its reader, who has not come to it.
    pub(super) is_ahead: bool,
    /// The window behind it was asked for.
    pub(super) has_next: bool,
    /// Somebody waits for it.
    pub(super) is_pinned: bool,
}

impl Window {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Whether it has the byte at `at`.
    pub(super) fn holds(&self, at: u64) -> bool {
        self.start <= at && at < self.end()
    }

    /// Whether so much of it was wanted that it is worth its memory.
    pub(super) fn may_share_memory(&self) -> bool {
        self.served_bytes.saturating_mul(SHARED_FRACTION) >= self.bytes.len() as u64
    }

    /// Whether nearly all of it was wanted, so that hardly any reader will come back to it.
    pub(super) fn is_used_up(&self) -> bool {
        self.served_bytes.saturating_mul(8) >= (self.bytes.len() as u64).saturating_mul(7)
    }

    /// Bytes to read when a reader goes on behind this window. Where less than a record in each 64 KiB of it was wanted,
    /// readers skip: the next read is as small as for a single record.
    pub(super) fn next_bytes(&self) -> u64 {
        if self.goes_on() { (self.requested_bytes * 4).min(WINDOW_BYTES_MAX) } else { WINDOW_BYTES_FIRST }
    }

    /// Whether its readers go on in order.
    fn goes_on(&self) -> bool {
        (self.served > 1 && self.served * RECORD_APART_BYTES >= self.bytes.len() as u64)
            || self.may_share_memory()
    }

    /// The window behind this one, once for a reader that goes on in order and has come to `at`: from its beginning where the
    /// window before was worth its memory, else from its middle on.
    pub(super) fn following(&mut self, at: u64) -> Option<WindowPlan> {
        let is_far = at - self.start >= self.bytes.len() as u64 / 2 && self.goes_on();
        let bytes = (self.requested_bytes * 4).min(WINDOW_BYTES_MAX);
        let length = bytes.max(self.longest + HEADERS_BYTES);
        if self.has_next || length > AHEAD_BYTES_MAX || !(self.follows_worthy || is_far) {
            return None;
        }
        self.has_next = true;
        Some(WindowPlan {
            reader: self.reader,
            start: self.end(),
            length,
            requested_bytes: bytes,
            // That is known when the reader comes there.
            follows_worthy: false,
            is_ahead: true,
        })
    }

    /// The record at `at`; `None` when the file ends before its end.
    pub(super) fn record(&mut self, at: u64, length: u64) -> Option<Bytes> {
        let start = usize::try_from(at - self.start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let record = self.bytes.get(start..end)?;
        self.served += 1;
        self.longest = self.longest.max(length);
        self.served_bytes = self.served_bytes.saturating_add(length);
        let shares = self.follows_worthy || self.may_share_memory();
        Some(if shares { self.bytes.slice(start..end) } else { Bytes::copy_from_slice(record) })
    }
}

/// Bytes read around a single record: four pages cost the disk the same as one.
pub(super) const WINDOW_BYTES_FIRST: u64 = 16 << 10;
/// Bytes per read of a sequential reader: large enough to hide the system call, small enough for the cache.
pub(super) const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// A window is worth its memory when one byte of so many was wanted.
pub(super) const SHARED_FRACTION: u64 = 4;
/// A window that begins with a record is so much longer than the longest one before it: headers lie between them.
const HEADERS_BYTES: u64 = 4 << 10;
/// A window of 256 KiB costs the disk less than a read for each of four records in it.
const RECORD_APART_BYTES: u64 = 64 << 10;
/// No more is read ahead at once. Records that are longer are read one by one.
const AHEAD_BYTES_MAX: u64 = 1 << 20;
