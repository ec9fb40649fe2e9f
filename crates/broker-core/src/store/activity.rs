//! Activity of an entity, for metrics and the management API: current counts and totals since the process started.
//!
//! Invariant: nothing is decided by it; it is not recorded and begins at zero with each process.

use crate::Timestamp;

/// Messages and locks that an entity holds now, and totals since the process started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Activity {
    /// Messages set aside.
    pub deferred: u64,
    /// Messages under a lock, deferred ones included. Locks whose end has not been treated yet count.
    pub locked: u64,
    /// Enqueued time of the oldest of its own messages, in any state; `None`: there is none.
    pub oldest: Option<Timestamp>,
    /// When the oldest of the locks began that have no timer, over its messages and its dead letters; `None`: there is
    /// none.
    pub held_since: Option<Timestamp>,
    /// Messages that arrived since the start: sent, forwarded, or copied from a topic.
    pub incoming: u64,
    /// Messages handed out since the start, each time again; of a topic, the copies made.
    pub outgoing: u64,
    /// Messages completed since the start, or received and deleted.
    pub completed: u64,
    /// Deliveries that failed since the start: abandoned, or the lock ran out.
    pub failed: u64,
    /// Completions since the start whose receiver asked for no answer, and that came after the lock was lost: the
    /// message is delivered again.
    pub late_completions: u64,
    /// Messages whose time was over, since the start.
    pub expired: u64,
    /// Messages that arrived among the dead letters since the start.
    pub dead_lettered: u64,
}

/// Totals of one store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) incoming: u64,
    pub(crate) outgoing: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) late_completions: u64,
    pub(crate) expired: u64,
}
