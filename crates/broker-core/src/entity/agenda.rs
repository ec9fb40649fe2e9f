//! Stores with work: at a deadline, for their consumers, or for the entity that they forward to.
//!
//! Invariant: a store that has a deadline stands under it or under an earlier one, and in one queue at most.

use std::collections::{BTreeSet, VecDeque};

use crate::{QueueId, Timestamp, store::Store};

/// Deadlines of stores, and stores that have something to do.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// The earliest deadline of each store that has one. It may be earlier than needed, never later.
    timers: BTreeSet<(Timestamp, QueueId)>,
    ready: ReadyStores,
}

/// Stores that may have something to do.
#[derive(Debug, Default)]
struct ReadyStores {
    /// For their consumers.
    dispatch: VecDeque<QueueId>,
    /// For the entity that they forward to.
    forward: VecDeque<QueueId>,
    /// Not before: the disk, which all of them need, was full.
    forward_at: Timestamp,
    /// Stores whose target had no room: each waits for its own time, and holds up no other.
    resting: BTreeSet<(Timestamp, QueueId)>,
}

impl Agenda {
    /// The earliest deadline of a store.
    pub(crate) fn first_timer(&self) -> Option<(Timestamp, QueueId)> {
        self.timers.first().copied()
    }

    /// Removes the earliest deadline: its store was deleted.
    pub(crate) fn drop_first_timer(&mut self) {
        self.timers.pop_first();
    }

    /// Puts a store under its earliest deadline.
    #[inline]
    pub(crate) fn arm(&mut self, store: &mut Store) {
        store.arm(&mut self.timers);
    }

    /// Takes away the deadline of a store.
    pub(crate) fn disarm(&mut self, store: &mut Store) {
        store.disarm(&mut self.timers);
    }

    /// Notes that a store may have something to hand out or to forward.
    pub(crate) fn wake(&mut self, store: &mut Store) {
        if store.queued {
            return;
        }
        if store.forwards.is_some() {
            store.queued = true;
            self.ready.forward.push_back(store.id);
            return;
        }
        let somebody_waits =
            store.links.have_work() || store.sessions.as_ref().is_some_and(|sessions| sessions.has_work());
        if somebody_waits {
            store.queued = true;
            self.ready.dispatch.push_back(store.id);
        }
    }

    /// The next store that may have something to hand out.
    pub(crate) fn next_to_dispatch(&mut self) -> Option<QueueId> {
        self.ready.dispatch.pop_front()
    }

    /// Whether a store may have something to hand out.
    pub(crate) fn has_to_dispatch(&self) -> bool {
        !self.ready.dispatch.is_empty()
    }

    /// The time at which messages are to be forwarded.
    pub(crate) fn forward_deadline(&self) -> Option<Timestamp> {
        let rested = self.ready.resting.first().map(|(at, _)| *at);
        let waiting = (!self.ready.forward.is_empty()).then_some(self.ready.forward_at);
        waiting.into_iter().chain(rested).min()
    }

    /// Takes all stores that have something to forward now. Those that become ready meanwhile wait for the next call.
    pub(crate) fn take_to_forward(&mut self, now: Timestamp) -> VecDeque<QueueId> {
        while let Some((_, queue)) = self.ready.resting.first().copied().filter(|(at, _)| *at <= now) {
            self.ready.resting.pop_first();
            self.ready.forward.push_back(queue);
        }
        if self.may_forward(now) { std::mem::take(&mut self.ready.forward) } else { VecDeque::new() }
    }

    /// Whether the disk has room for what is forwarded, as far as is known.
    pub(crate) fn may_forward(&self, now: Timestamp) -> bool {
        now >= self.ready.forward_at
    }

    /// Puts back those that were taken and had no turn, in front of those that came meanwhile.
    pub(crate) fn put_back_to_forward(&mut self, mut waiting: VecDeque<QueueId>) {
        waiting.append(&mut self.ready.forward);
        self.ready.forward = waiting;
    }

    /// The disk is full: nothing is forwarded before this time.
    pub(crate) fn delay_all_forwards(&mut self, until: Timestamp) {
        self.ready.forward_at = until;
    }

    /// The target of a store has no room: the store waits, and holds up no other.
    pub(crate) fn delay_forward(&mut self, store: &mut Store, until: Timestamp) {
        store.queued = true;
        self.ready.resting.insert((until, store.id));
    }
}
