//! The locks of consumers that are gone end, and those that a transaction gives back.
//!
//! Invariant: one call ends a bounded number of them, or leaves them to their transactions, and copies a bounded number of
//! bytes to dead-letter stores; the others wait for [`Core::handle_deadline`], which is due as long as some wait. Meanwhile
//! they are locks like others.

use std::collections::VecDeque;

use super::{Core, deadline::cost, settle::Addition, wake};
use crate::{LockId, Output, QueueId, Timestamp, UnsettledPolicy, store::Holders};

/// Locks that nobody will settle.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    waiting: VecDeque<Lost>,
    /// What the current call may still do.
    pub(super) left: u32,
}

/// A lock to end.
#[derive(Clone, Copy, Debug)]
struct Lost {
    queue: QueueId,
    sequence: u64,
    lock: LockId,
    /// It counts as a failed delivery.
    fail: bool,
}

impl Leaving {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A lock ends, as failed or not, as soon as there is room for it.
    pub(super) fn lose(&mut self, queue: QueueId, sequence: u64, lock: LockId, fail: bool) {
        self.waiting.push_back(Lost { queue, sequence, lock, fail });
    }
}

impl Core {
    /// A call begins: it may end locks.
    pub(super) fn begin_leaving(&mut self) {
        self.leaving.left = self.config.pump_messages_max.max(1);
    }

    /// Ends the locks of consumers that are gone, in order of number.
    pub(super) fn end_locks(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        holders: &Holders,
        out: &mut impl Output,
    ) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        for (sequence, fail) in store.locked_by(holders) {
            if let Some(lock) = store.slots.get(sequence).map(|slot| slot.lock) {
                self.leaving.lose(queue, sequence, lock, fail);
            }
        }
        self.leaving.left = self.work_off_leaving(now, self.leaving.left, out);
    }

    /// Ends locks that wait for it, until `left` is used up; says how much of that is left.
    pub(super) fn work_off_leaving(&mut self, now: Timestamp, mut left: u32, out: &mut impl Output) -> u32 {
        while left > 0
            && let Some(lost) = self.leaving.waiting.pop_front()
        {
            let Lost { queue, sequence, lock, fail } = lost;
            if self.transactions.holds(queue, sequence, lock) {
                // Its transaction ends it, one way or the other.
                self.leave_to_transaction(lost);
                left -= 1;
                continue;
            }
            let slot = self.stores.get(&queue).and_then(|store| store.slots.get(sequence));
            let Some(length) = slot.filter(|s| s.is_locked() && s.lock == lock).map(|s| s.length) else {
                continue;
            };
            self.give_back(now, queue, sequence, fail, Addition::default(), out);
            self.rearm(queue);
            if let Some(store) = self.stores.get_mut(&queue).filter(|store| store.sessions.is_some()) {
                // It may have been the last one that kept its session from the next holder.
                wake(store, &mut self.active);
            }
            let moved = self.stores.get(&queue).is_none_or(|store| store.slots.get(sequence).is_none());
            left = left.saturating_sub(cost(moved, length));
        }
        left
    }

    /// The holder of a message that a transaction settles is gone. The commit still settles it, unless its session is lost;
    /// a rollback returns it, for nobody holds it.
    fn leave_to_transaction(&mut self, lost: Lost) {
        let Lost { queue, sequence, lock, fail } = lost;
        let otherwise = if fail { UnsettledPolicy::Fail } else { UnsettledPolicy::Release };
        self.transactions.set_otherwise(queue, sequence, lock, otherwise);
    }
}
