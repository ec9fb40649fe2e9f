//! Release of the locks of closed consumers and of rolled back transactions.
//!
//! Invariant: one call ends a bounded number of them, or leaves them to their transactions, and copies a bounded number
//! of bytes to dead-letter stores; the others wait for [`Core::handle_deadline`](crate::Core::handle_deadline), which
//! is due as long as some wait. Meanwhile they are locks like others.

use super::{disposer::Disposer, lock_release_queue::PendingRelease, property_patch::PropertyPatch};
use crate::{
    LockRef, Output, QueueId, Timestamp, UnsettledPolicy,
    call::{Cx, cost},
    namespace::Namespace,
    store::{Holders, slot::Slot},
    transaction::open::{Key, Settlement, Work},
};

/// Ends locks that no client will settle.
#[derive(Debug)]
pub(crate) struct LockReleases<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> LockReleases<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl LockReleases<'_> {
    /// Ends the locks of closed consumers, in order of number.
    pub(crate) fn end_locks(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, holders: &Holders) {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return };
        let (held, visited) = store.locked_by(holders);
        cx.out.charge(crate::Work::SLOT.times(visited as u64));
        for (sequence, fail) in held {
            if let Some(lock) = store.slots.get(sequence).map(Slot::lock) {
                self.state.lock_releases.push(LockRef { queue, sequence, lock }, fail);
            }
        }
        self.drain_within_room(cx);
    }

    /// Ends locks that wait for it, as far as the call has room.
    fn drain_within_room(&mut self, cx: &mut Cx<'_, impl Output>) {
        let room = cx.release_room();
        let left = self.drain_lock_releases(cx, room);
        cx.use_room(room, left);
    }

    /// Ends locks that wait for it, until `left` is used up; says how much of that is left.
    pub(crate) fn drain_lock_releases(&mut self, cx: &mut Cx<'_, impl Output>, mut left: u32) -> u32 {
        while left > 0
            && let Some(release) = self.state.lock_releases.pop()
        {
            let PendingRelease { lock, fail, .. } = release;
            if self.state.transactions.holds(lock) {
                // Its transaction ends it, one way or the other.
                self.leave_to_transaction(release);
                left -= 1;
                continue;
            }
            let LockRef { queue, sequence, lock } = lock;
            let slot = self.state.store(queue).and_then(|store| store.slots.get(sequence));
            let Some(length) = slot.filter(|s| s.is_locked() && s.lock() == lock).map(|s| s.length) else {
                // It ended in another way, or its entity is gone.
                left -= 1;
                continue;
            };
            if release.may_wait()
                && Disposer::of(&mut self.state.messages).becomes_dead_letter(cx.now, queue, sequence, fail)
                && let Some(read) = self.state.messages.entities.ask_for_message(queue, sequence, cx.out)
            {
                self.state.lock_releases.put_back_to_read(release, read);
                left -= 1;
                continue;
            }
            Disposer::of(&mut self.state.messages).return_message(
                cx,
                queue,
                sequence,
                fail,
                PropertyPatch::default(),
            );
            self.state.messages.entities.rearm(queue);
            if let Some(store) =
                self.state.messages.entities.stores.get_mut(&queue).filter(|store| store.sessions.is_some())
            {
                // It may have been the last one that kept its session from the next holder.
                self.state.messages.entities.agenda.wake(store);
            }
            let moved = self.state.store(queue).is_none_or(|store| store.slots.get(sequence).is_none());
            left = left.saturating_sub(cost(moved, length));
        }
        left
    }

    /// The holder of a message that a transaction settles has closed. The commit still settles the message, unless its
    /// session is lost; a rollback returns it, because no consumer holds it.
    fn leave_to_transaction(&mut self, release: PendingRelease) {
        let PendingRelease { lock, fail, .. } = release;
        let on_rollback = if fail { UnsettledPolicy::Fail } else { UnsettledPolicy::Release };
        self.state.transactions.set_on_rollback(lock, on_rollback);
    }
}

impl LockReleases<'_> {
    /// Drops the operations of a transaction. Receivers keep the messages that they have not settled; the others
    /// return, unless their locks outlive links, as those of Service Bus clients do.
    pub(crate) fn undo(&mut self, cx: &mut Cx<'_, impl Output>, work: Vec<Work>) {
        self.mark_lock_ends(work);
        self.drain_within_room(cx);
    }

    /// Marks the locks that end with a rollback.
    pub(crate) fn mark_lock_ends(&mut self, work: Vec<Work>) {
        for work in work {
            let Work::Settle(Settlement { lock, on_rollback, .. }) = work else { continue };
            match on_rollback {
                UnsettledPolicy::KeepLocks => {}
                UnsettledPolicy::Release => self.state.lock_releases.push(lock, false),
                UnsettledPolicy::Fail => self.state.lock_releases.push(lock, true),
            }
        }
    }

    /// Rolls back the transactions whose time is over, until `left` is used up; says how much of that is left.
    pub(crate) fn time_out_transactions(&mut self, now: Timestamp, mut left: u32) -> u32 {
        while left > 0
            && let Some(work) = self.state.transactions.time_out(now)
        {
            left = left.saturating_sub(u32::try_from(work.len()).unwrap_or(u32::MAX).max(1));
            self.mark_lock_ends(work);
        }
        left
    }

    /// Rolls a transaction back whose time is over: what time brings may wait for the disk, and its client need not.
    pub(crate) fn time_out_late(&mut self, cx: &mut Cx<'_, impl Output>, key: Key) {
        if let Some(work) = self.state.transactions.time_out_of(key, cx.now) {
            self.undo(cx, work);
        }
    }
}
