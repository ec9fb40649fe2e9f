//! Agreement: the position up to which effects may leave, and whether the node may answer at all.
//!
//! Invariant: a node asks nobody else, so that replication has one place to begin.
//!
//! Alone, a node answers for what its own disk has synced. In a replicated shard a majority of the replicas has to have
//! synced it, and the node has to be the leader. Effects are everything that a client is told; views of a core, for figures
//! and lists of an operator, show what the own disk may not have yet, and ask nobody.

use std::fmt::Debug;

use broker_log::Position;

/// Decides which effects may leave.
pub trait Agreement: Debug + Send {
    /// Position before which all records are kept for good, where the own disk has synced those before `durable`. It
    /// never goes back, and is never greater than `durable` in a node that is alone.
    fn agreed(&self, durable: Position) -> Position;

    /// Whether this node may show anything to clients now.
    fn may_answer(&self) -> bool;
}

/// One node with one disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Agreement for Alone {
    fn agreed(&self, durable: Position) -> Position {
        durable
    }

    fn may_answer(&self) -> bool {
        true
    }
}
