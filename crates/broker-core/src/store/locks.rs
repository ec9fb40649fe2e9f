//! Locks of the messages of a store.
//!
//! Invariant: `counts.locked` is the number of slots that are locked, and each of them is among the runs of the timers.

use super::{Holders, Store, sessions::Session, slot::ConsumerNumber};
use crate::{LockId, SettleError, Timestamp};

impl Store {
    /// Locks a message that was taken.
    pub(crate) fn lock(&mut self, sequence: u64, lock: LockId, holder: ConsumerNumber, until: Timestamp) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        slot.start_lock(lock, holder, until);
        self.counts.locked += 1;
        self.lock_owners.note(holder, sequence);
        self.timers.push_lock(until, sequence, &self.slots, self.counts.locked);
    }

    /// Locks a message that was taken, for as long as its holder's link lasts.
    pub(crate) fn lock_untimed(
        &mut self,
        sequence: u64,
        lock: LockId,
        holder: ConsumerNumber,
        now: Timestamp,
    ) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        slot.start_untimed_lock(lock, holder, now);
        self.counts.locked += 1;
        self.lock_owners.note(holder, sequence);
        self.timers.push_untimed(now, sequence, &self.slots, self.counts.locked);
    }

    /// Gives a running lock a new end. A lock without a timer stays as it is.
    pub(crate) fn renew(&mut self, sequence: u64, until: Timestamp) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        let before = slot.lock_time();
        slot.renew_lock(until);
        // A request may name one lock as often as it likes. The first renewal has noted the end, and another entry for
        // the same end would never be void.
        if slot.held_since().is_none() && slot.lock_time() != before {
            self.timers.push_lock(until, sequence, &self.slots, self.counts.locked);
        }
    }

    /// When the oldest of the locks without a timer began.
    pub(crate) fn oldest_untimed_lock(&self) -> Option<Timestamp> {
        self.timers.oldest_untimed_lock(&self.slots)
    }

    /// Whether `lock` of a message still permits to settle.
    pub(crate) fn check_lock(&self, sequence: u64, lock: LockId, now: Timestamp) -> Result<(), SettleError> {
        let slot = self.slots.get(sequence);
        let Some(sessions) = &self.sessions else {
            return slot.ok_or(SettleError::LockLost)?.check_lock(lock, now);
        };
        let slot = slot.ok_or(SettleError::SessionLockLost)?;
        let session = sessions.get(slot.session());
        let holder = session.and_then(|session| session.holder(now)).ok_or(SettleError::SessionLockLost)?;
        slot.check_lock(lock, now)
            .map_err(|error| if holder.gave(lock) { error } else { SettleError::SessionLockLost })
    }

    /// Whether this session is held now and was when this lock was given.
    pub(crate) fn is_held_since(&self, session: &str, lock: LockId, now: Timestamp) -> bool {
        let Some(sessions) = &self.sessions else { return false };
        let session = sessions.find(session).and_then(|number| sessions.get(number));
        session.and_then(|session| session.holder(now)).is_some_and(|holder| holder.gave(lock))
    }

    /// Locks a message for the holder of its session; says when that lock ends.
    pub(crate) fn lock_in_session(&mut self, sequence: u64, lock: LockId) -> Timestamp {
        let Some(slot) = self.slots.get_mut(sequence) else { return Timestamp::MAX };
        let number = slot.session();
        // It ends with the session's lock, which may be renewed.
        slot.start_lock_in_session(lock, Timestamp::MAX);
        self.counts.locked += 1;
        self.update_session_state(sequence);
        self.session(number).and_then(Session::until).unwrap_or(Timestamp::MAX)
    }

    /// Ends a lock. The message stays where it stands: see `put_back`.
    pub(crate) fn unlock(&mut self, sequence: u64) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        slot.end_lock();
        self.counts.locked -= 1;
    }

    /// The messages that these closed consumers have locked, in order, each with the flag of its holder; and how many
    /// slots were looked at to find them.
    pub(crate) fn locked_by(&mut self, holders: &Holders) -> (Vec<(u64, bool)>, usize) {
        let mut visited = self.lock_owners.list(&self.timers, &self.slots);
        let mut held = Vec::new();
        for (holder, fail) in holders {
            for sequence in self.lock_owners.take(*holder) {
                visited += 1;
                let slot = self.slots.get(sequence);
                if slot.is_some_and(|slot| slot.is_locked() && slot.holder() == *holder) {
                    held.push((sequence, *fail));
                }
            }
        }
        self.lock_owners.drop_empty();
        held.sort_unstable();
        held.dedup();
        #[cfg(test)]
        {
            self.slots_visited += visited;
        }
        (held, visited)
    }
}
