//! When a store wants to be looked at again.
//!
//! Invariant: in the core's table a store stands once at most, and no later than the first of its locks, messages, ids and
//! sessions whose time ends.

use std::collections::BTreeSet;

use crate::{
    QueueId, Timestamp,
    slot::Slot,
    store::{Store, any},
};

impl Store {
    /// Notes when a message is to become active, or to expire.
    #[inline]
    pub(super) fn remind(&mut self, sequence: u64, slot: &Slot) {
        if let Some(due) = slot.due() {
            self.schedule.push(due, sequence);
            if self.schedule.is_bloated(self.counts.scheduled) {
                let slots = &self.slots;
                self.schedule.compact(|run| any(slots, *run, |slot| slot.due() == Some(run.at)));
            }
        } else if slot.expires_at != Timestamp::MAX && !self.is_dead_letter() {
            self.expiries.push(slot.dies_at(), sequence);
            if self.expiries.is_bloated(self.counts.expiring) {
                let slots = &self.slots;
                self.expiries.compact(|run| any(slots, *run, |slot| slot.dies_at() == run.at));
            }
        }
    }

    /// Puts the store under its earliest deadline in the core's table, if that is earlier than what stands there.
    pub(crate) fn arm(&mut self, timers: &mut BTreeSet<(Timestamp, QueueId)>) {
        let expiries = if self.expires_now() { self.expiries.next() } else { None };
        let forget = self.history.as_ref().and_then(|history| history.forget_at());
        let sessions = self.sessions.as_ref().and_then(|sessions| sessions.deadline());
        // One by one: an array of them would be written in small pieces and read in large ones, for which the processor
        // waits until all it has written before is out.
        let mut next = self.armed;
        for other in [self.locks.next(), expiries, self.schedule.next(), forget, sessions] {
            next = other.map_or(next, |other| next.min(other));
        }
        if next == self.armed {
            return;
        }
        timers.remove(&(self.armed, self.id));
        timers.insert((next, self.id));
        self.armed = next;
    }

    /// Somebody waits to receive: that may let messages expire.
    pub(crate) fn arm_for_receivers(&mut self, timers: &mut BTreeSet<(Timestamp, QueueId)>) {
        if self.lazy_expiry {
            self.arm(timers);
        }
    }

    /// Takes the store out of the core's table.
    pub(crate) fn disarm(&mut self, timers: &mut BTreeSet<(Timestamp, QueueId)>) {
        timers.remove(&(self.armed, self.id));
        self.armed = Timestamp::MAX;
    }

    /// Whether messages whose time is over go at this time.
    pub(crate) fn expires_now(&self) -> bool {
        let in_sessions = self.sessions.is_some() && self.consumers > 0;
        let is_waited_for = !self.ring.is_empty() || in_sessions || self.selects_now();
        !self.lazy_expiry || is_waited_for || self.forwards.is_some()
    }
}
