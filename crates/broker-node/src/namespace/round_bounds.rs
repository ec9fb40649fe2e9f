//! Bounds of a round.
//!
//! Invariant: they are inputs of the node, or follow from its inputs.

use broker_core::{Timestamp, Work};
use broker_log::Position;

use crate::NodeLimits;

/// Bounds of a round, for all namespaces together.
#[derive(Clone, Copy)]
pub(crate) struct RoundBounds {
    pub(crate) now: Timestamp,
    pub(crate) limits: NodeLimits,
    /// Work that all of them may do.
    pub(crate) work: Work,
    /// End of the journal at which so much waits for the disk that the round is full for all.
    pub(crate) full_at: u64,
    /// The disk has confirmed everything before this position.
    pub(crate) durable: Position,
}
