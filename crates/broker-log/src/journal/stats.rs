//! Statistics of the journal.
//!
//! Invariant: reading it changes nothing.

use crate::Position;

/// Figures of a journal, for metrics and operators.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JournalStats {
    /// Position where replay begins.
    pub tail: Position,
    /// Position of the next byte.
    pub end: Position,
    /// Everything before it is durable.
    pub durable: Position,
    /// Segments in use.
    pub segments: u64,
    /// Spare segments, ready or in preparation.
    pub spares: u64,
    /// Bytes of the segments in use.
    pub used_bytes: u64,
    /// Bytes of records that were not released, with their headers.
    pub live_bytes: u64,
    /// Bytes of recent and of retained records in memory.
    pub cache_bytes: u64,
    /// Bytes of committed records that are not durable yet.
    pub unwritten_bytes: u64,
    /// Free disk space in bytes, when it was last measured.
    pub free_bytes: Option<u64>,
    /// Writes since the start.
    pub writes: u64,
    /// Writes with a sync since the start.
    pub syncs: u64,
    /// Records that were not found in memory since the start. Some of them were read ahead with another one: reads of the disk
    /// itself are [`crate::Journal::disk_reads`].
    pub disk_reads: u64,
    /// Reads of the disk that somebody waits for or will, those that are performed among them.
    pub reads_waiting: u64,
    /// Reads of the disk that threads perform.
    pub reads_in_flight: u64,
    /// Segments freed since the start.
    pub segments_freed: u64,
    /// Bytes of records walked through for cleaning since the start.
    pub compacted_bytes: u64,
    /// Files that could not be deleted since the start; they hold nothing.
    pub failed_deletes: u64,
}
