//! Configuration of the journal.
//!
//! Invariant: no setting changes what is on disk in a way that another setting could not read.

/// Step after which a record counts as durable.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Durability {
    /// After `fdatasync`: survives loss of power.
    #[default]
    Fsync,
    /// After the write to the operating system: survives a killed process.
    Os,
    /// At once, in memory only: survives nothing. For tests and caches.
    None,
}

/// Settings of a journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JournalConfig {
    /// Size of a segment in bytes. A larger record gets a segment of its own size.
    pub segment_bytes: u64,
    /// Bytes of records that stay in the write cache for reading: recent ones, and older ones of owners that have appended less
    /// than their share.
    pub cache_bytes: u64,
    /// Step after which a record counts as durable.
    pub durability: Durability,
    /// Number of spare segments, preallocated and filled with zeros.
    pub spare_segments: u32,
    /// Below this much free disk space, in bytes, [`crate::Journal::storage_full`] is true.
    pub reserve_bytes: u64,
    /// Disk space the journal may use, in bytes; `None`: what the disk has. The reserve is part of it.
    pub max_disk_bytes: Option<u64>,
    /// Largest record in bytes, at most 1 GiB.
    pub max_record_bytes: u32,
    /// Compaction begins when the journal is larger than this many times its live bytes; at least 2.
    pub space_factor: u32,
    /// Part of the identity of every new segment. The server passes a random number, so that no client can send a
    /// payload that recovery would take for a piece of the journal. Tests pass any number.
    pub salt: u64,
    /// Number of the shard whose journal this is. The mark at the beginning of each segment names it, and a journal whose marks
    /// name another is refused.
    pub shard: u32,
    /// Random id of the node that owns the data folder; 0: none. The marks name it; a journal whose marks name another opens.
    pub node: u64,
    /// Time of the opening, in milliseconds since 1970. See [`crate::Journal::set_time`].
    pub opened_at: u64,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            cache_bytes: 256 << 20,
            durability: Durability::Fsync,
            spare_segments: 2,
            reserve_bytes: 256 << 20,
            max_disk_bytes: None,
            max_record_bytes: 256 << 20,
            space_factor: 2,
            salt: 0,
            shard: 0,
            node: 0,
            opened_at: 0,
        }
    }
}

impl JournalConfig {
    /// The same with every value inside its limits.
    pub(crate) fn bounded(mut self) -> Self {
        let smallest = if self.durability == Durability::None {
            self.segment_bytes.min(MEMORY_SEGMENT_BYTES)
        } else {
            self.segment_bytes
        };
        self.segment_bytes = smallest.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        self.max_record_bytes = self.max_record_bytes.min(RECORD_BYTES_MAX);
        self.space_factor = self.space_factor.max(2);
        self.spare_segments = self.spare_segments.min(SPARE_SEGMENTS_MAX);
        self
    }
}

/// Smaller segments would be all header.
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
/// A batch's length is 32 bits and never crosses segments.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// In memory, a segment is only the grain in which dead records are given back.
const MEMORY_SEGMENT_BYTES: u64 = 4 << 20;
/// Upper bound of `max_record_bytes`.
pub(crate) const RECORD_BYTES_MAX: u32 = 1 << 30;
/// More would never be used.
const SPARE_SEGMENTS_MAX: u32 = 64;

#[cfg(test)]
mod tests;
