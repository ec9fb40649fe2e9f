//! Compaction of the oldest segment: its live records are appended again, then its file is reused.
//!
//! ```text
//!   Idle ──wanted──▶ Walking ──end──▶ Asked ──segment_compacted──▶ Waiting ──durable──▶ Idle (segment freed)
//!                       └────a record is damaged────▶ Stopped
//! ```
//!
//! Invariant: segments are freed strictly oldest first, each only when nothing in it is live and everything that
//! was appended instead is durable.

use bytes::Bytes;

use crate::{
    Position, ReadError,
    scan::{Records, Scanner},
};

/// Next step of compaction for the caller, from [`crate::Journal::poll_compaction`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CompactionStep {
    /// Records of the oldest segment, in order. Append what lives anew and release the old one.
    Records(Vec<(Position, Bytes)>),
    /// The oldest segment, everything before `up_to`, has been walked through, or holds nothing that lives.
    /// Append anew what must not go with it, and release it; then call [`crate::Journal::segment_compacted`].
    SegmentDone {
        /// Position where the next segment begins.
        up_to: Position,
    },
}

/// State of compaction.
#[derive(Debug, Default)]
pub(crate) enum Compaction {
    /// Nothing to do.
    #[default]
    Idle,
    /// The oldest segment is read.
    Walking(Box<Walk>),
    /// The caller was asked to finish.
    Asked,
    /// Everything up to this position must be durable before the segment goes.
    Waiting { until: u64 },
    /// A record cannot be read: the segment stays until an operator has looked.
    Stopped(ReadError),
}

/// Progress of the walk through a segment.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Records before this position are done.
    pub at: u64,
    /// End of the segment.
    pub end: u64,
    /// Reads from disk, once the records are no longer in memory.
    pub scanner: Option<Scanner>,
    /// Records already read and not yet handed out.
    pub ready: Option<Records>,
}

/// Compaction on its way once through the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// End of the journal when the pass began.
    pub end: u64,
    /// Bytes that the journal used when the pass began.
    pub used: u64,
}
