//! Timers of a store, and its entry in the namespace's table of timers.
//!
//! Invariant: each locked, scheduled or expiring slot is among the runs of its queue at the time that the slot says; a
//! run may name others too, so the slot decides. In the table a store stands once at most, and no later than the first
//! of its locks, messages, ids and sessions whose time ends.

use std::collections::BTreeSet;

use super::{
    counts::Counts,
    deadlines::{Deadlines, Run},
    slot::Slot,
    slots::Slots,
};
use crate::{QueueId, Timestamp};

/// Timers of the messages of one store.
#[derive(Debug)]
pub(crate) struct Timers {
    pub(crate) locks: Deadlines,
    /// Locks without a timer, at the times at which they began: nothing is due then.
    untimed: Deadlines,
    pub(crate) expiries: Deadlines,
    pub(crate) schedule: Deadlines,
    /// The deadline under which the table has this store.
    pub(super) armed: Timestamp,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            locks: Deadlines::default(),
            untimed: Deadlines::default(),
            expiries: Deadlines::default(),
            schedule: Deadlines::default(),
            armed: Timestamp::MAX,
        }
    }
}

impl Timers {
    /// Notes the end of a lock.
    pub(super) fn push_lock(&mut self, until: Timestamp, sequence: u64, slots: &Slots<Slot>, locked: usize) {
        self.locks.push(until, sequence);
        if self.locks.is_bloated(locked) {
            self.locks.compact(|run| any(slots, *run, |slot| slot.lock_time() == Some(run.at)));
        }
    }

    /// Notes the begin of a lock without a timer.
    pub(super) fn push_untimed(&mut self, now: Timestamp, sequence: u64, slots: &Slots<Slot>, locked: usize) {
        self.untimed.push(now, sequence);
        if self.untimed.is_bloated(locked) {
            self.untimed.compact(|run| any(slots, *run, |slot| slot.held_since() == Some(run.at)));
        }
    }

    /// Notes the time at which a message is due, if it is scheduled.
    #[inline]
    pub(super) fn push_due(&mut self, due: Timestamp, sequence: u64, slots: &Slots<Slot>, counts: &Counts) {
        self.schedule.push(due, sequence);
        if self.schedule.is_bloated(counts.scheduled) {
            self.schedule.compact(|run| any(slots, *run, |slot| slot.due() == Some(run.at)));
        }
    }

    /// Notes the end of a message's time to live.
    #[inline]
    pub(super) fn push_expiry(&mut self, at: Timestamp, sequence: u64, slots: &Slots<Slot>, counts: &Counts) {
        self.expiries.push(at, sequence);
        if self.expiries.is_bloated(counts.expiring) {
            self.expiries.compact(|run| any(slots, *run, |slot| slot.dies_at() == run.at));
        }
    }

    /// When the oldest of the locks without a timer began.
    pub(super) fn oldest_untimed_lock(&self, slots: &Slots<Slot>) -> Option<Timestamp> {
        self.untimed.earliest(|run| any(slots, *run, |slot| slot.held_since() == Some(run.at)))
    }

    /// Runs that hold all locked messages, and others too.
    pub(super) fn lock_runs(&self) -> impl Iterator<Item = Run> {
        self.locks.runs().chain(self.untimed.runs())
    }

    /// Moves the store to the time `next` in the table.
    pub(super) fn arm(&mut self, id: QueueId, next: Timestamp, table: &mut BTreeSet<(Timestamp, QueueId)>) {
        if next == self.armed {
            return;
        }
        table.remove(&(self.armed, id));
        table.insert((next, id));
        self.armed = next;
    }

    /// Takes the store out of the table.
    pub(super) fn disarm(&mut self, id: QueueId, table: &mut BTreeSet<(Timestamp, QueueId)>) {
        table.remove(&(self.armed, id));
        self.armed = Timestamp::MAX;
    }
}

/// Whether any message of a run answers to `test`.
fn any(slots: &Slots<Slot>, run: Run, test: impl Fn(&Slot) -> bool) -> bool {
    let mut from = run.first;
    while let Some(sequence) = slots.next_before(from, run.sequences().end) {
        if slots.get(sequence).is_some_and(&test) {
            return true;
        }
        from = sequence + 1;
    }
    false
}
