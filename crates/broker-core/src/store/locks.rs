//! Locks of the messages of a store.
//!
//! Invariant: `counts.locked` is the number of slots that are locked. Each of them is among the runs of `locks` at the end
//! of its lock, or, where its lock has no timer, among the runs of `untimed` at the time at which it began.

use crate::{
    LockId, SettleError, Timestamp,
    sessions::Session,
    slot::ConsumerNumber,
    store::{Holders, LockOwners, Store, any},
};

impl Store {
    /// Locks a message that was taken.
    pub(crate) fn lock(&mut self, sequence: u64, lock: LockId, holder: ConsumerNumber, until: Timestamp) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        slot.start_lock(lock, holder, until);
        self.note_lock(holder, sequence);
        self.push_lock(until, sequence);
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
        self.note_lock(holder, sequence);
        self.untimed.push(now, sequence);
        if self.untimed.is_bloated(self.counts.locked) {
            let slots = &self.slots;
            self.untimed.compact(|run| any(slots, *run, |slot| slot.held_since() == Some(run.at)));
        }
    }

    fn note_lock(&mut self, holder: ConsumerNumber, sequence: u64) {
        self.counts.locked += 1;
        if let Some(lock_owners) = &mut self.lock_owners
            && !lock_owners.note(holder, sequence)
        {
            self.lock_owners = None;
        }
    }

    /// Gives a running lock a new end. A lock without a timer stays as it is.
    pub(crate) fn renew(&mut self, sequence: u64, until: Timestamp) {
        let Some(slot) = self.slots.get_mut(sequence) else { return };
        slot.renew_lock(until);
        if slot.held_since().is_none() {
            self.push_lock(until, sequence);
        }
    }

    /// When the oldest of the locks without a timer began.
    pub(crate) fn oldest_untimed_lock(&self) -> Option<Timestamp> {
        self.untimed.earliest(|run| any(&self.slots, *run, |slot| slot.held_since() == Some(run.at)))
    }

    fn push_lock(&mut self, until: Timestamp, sequence: u64) {
        self.locks.push(until, sequence);
        if self.locks.is_bloated(self.counts.locked) {
            let slots = &self.slots;
            self.locks.compact(|run| any(slots, *run, |slot| slot.lock_time() == Some(run.at)));
        }
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

    /// The messages that these consumers have locked, in order, with what is said of the holder. They are gone: they lock no
    /// more.
    pub(crate) fn locked_by(&mut self, holders: &Holders) -> Vec<(u64, bool)> {
        let mut lock_owners = self.lock_owners.take().unwrap_or_else(|| Box::new(self.list_locks()));
        let mut held = Vec::new();
        for (holder, fail) in holders {
            for sequence in lock_owners.take(*holder) {
                #[cfg(test)]
                {
                    self.slots_visited += 1;
                }
                let slot = self.slots.get(sequence);
                if slot.is_some_and(|slot| slot.is_locked() && slot.holder() == *holder) {
                    held.push((sequence, *fail));
                }
            }
        }
        self.lock_owners = Some(lock_owners).filter(|lock_owners| !lock_owners.is_empty());
        held.sort_unstable();
        held.dedup();
        held
    }

    /// All locks, in one walk.
    fn list_locks(&mut self) -> LockOwners {
        let mut locks = Vec::with_capacity(self.counts.locked);
        let mut slots_visited = 0;
        for run in self.locks.runs().chain(self.untimed.runs()) {
            let mut from = run.first;
            while let Some(sequence) = self.slots.next_before(from, run.sequences().end) {
                if let Some(slot) = self.slots.get(sequence).filter(|slot| slot.is_locked()) {
                    locks.push((slot.holder(), sequence));
                }
                from = sequence + 1;
                slots_visited += 1;
            }
        }
        #[cfg(test)]
        {
            self.slots_visited += slots_visited;
        }
        LockOwners::of(locks.into_iter(), slots_visited)
    }
}
