//! Limits of a node.
//!
//! Invariant: each has a default with which a node works on any disk.

use std::time::Duration;

/// Bounds on one round of background work, so that commands never wait long behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NodeLimits {
    /// Bytes of the oldest segment looked at in one step of cleaning.
    pub clean_bytes: usize,
    /// Bytes handed to the disk and not yet written at which no more commands should be handled.
    pub unwritten_bytes_max: u64,
    /// The same of one namespace, in a node that has several, while no other one had work lately.
    pub unwritten_bytes_alone: u64,
    /// The same of all namespaces that had work lately, shared by weight. A send waits for what is being
    /// written, and for what is written with it, so this is what a disk writes in a fraction of a millisecond.
    pub unwritten_bytes_shared: u64,
    /// Bytes that wait for the disk above which compaction waits, unless space runs short.
    pub compaction_unwritten_max: u64,
    /// Bytes of records and of large answers after which one round handles no more commands. A message to a topic may
    /// become ten thousand records.
    pub round_bytes_max: u64,
    /// Longest wait of a record for others when no effect waits for it. Rarely, when a sync for others has just missed
    /// it, twice as long.
    pub flush_after: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            clean_bytes: 256 << 10,
            unwritten_bytes_max: 64 << 20,
            unwritten_bytes_alone: 8 << 20,
            unwritten_bytes_shared: 256 << 10,
            compaction_unwritten_max: 1 << 20,
            round_bytes_max: 4 << 20,
            flush_after: Duration::from_millis(10),
        }
    }
}
