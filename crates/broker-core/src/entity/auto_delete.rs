//! Entities with `AutoDeleteOnIdle` delete themselves (`docs/features/idle-deletion.md`).
//!
//! Invariant: an entity with such a setting stands in the table once; it is never deleted before the whole time has
//! passed since something last happened to it. A restart counts as something.

use std::collections::{BTreeMap, BTreeSet};

use crate::{QueueId, Timestamp};

/// Times at which idle entities are checked.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    times: BTreeSet<(Timestamp, QueueId)>,
    of: BTreeMap<QueueId, Timestamp>,
}

impl Idle {
    /// Sets the time of the entity's next check.
    pub(crate) fn look_at(&mut self, queue: QueueId, at: Timestamp) {
        self.forget(queue);
        self.times.insert((at, queue));
        self.of.insert(queue, at);
    }

    /// The entity was deleted, or is never deleted when idle.
    pub(crate) fn forget(&mut self, queue: QueueId) {
        if let Some(at) = self.of.remove(&queue) {
            self.times.remove(&(at, queue));
        }
    }

    /// When to look next.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.times.first().map(|(at, _)| *at)
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<QueueId> {
        let (_, queue) = self.times.first().copied().filter(|(at, _)| *at <= now)?;
        self.forget(queue);
        Some(queue)
    }
}
