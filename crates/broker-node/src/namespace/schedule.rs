//! Which namespaces have work, and when others will.
//!
//! Invariant: a namespace without work costs nothing in a round, and a round allocates nothing once as many namespaces had
//! work at the same time before.

use std::{cmp::Reverse, collections::BinaryHeap};

use broker_core::{NamespaceSlot, Timestamp};

/// The turns of the namespaces.
#[derive(Debug, Default)]
pub(crate) struct NamespaceSchedule {
    /// Namespaces that have something to do, with their weights, by slot.
    ready: Vec<(NamespaceSlot, u16)>,
    /// Sum of these weights.
    ready_weight: u64,
    /// Next deadline of the namespace in each slot.
    deadlines: Vec<Option<Timestamp>>,
    /// The same in order of time, among entries that do not hold any more. The first one holds.
    due: BinaryHeap<Reverse<(Timestamp, NamespaceSlot)>>,
    /// The namespace that was first in the last round.
    first: Option<NamespaceSlot>,
}

impl NamespaceSchedule {
    /// The namespace has something to do.
    #[inline]
    pub(crate) fn make_ready(&mut self, slot: NamespaceSlot, weight: u16) {
        let weight = weight.max(1);
        self.ready_weight += u64::from(weight);
        match self.place(slot) {
            Ok(place) => {
                if let Some((_, before)) = self.ready.get_mut(place) {
                    self.ready_weight -= u64::from(*before);
                    *before = weight;
                }
            }
            Err(place) => self.ready.insert(place, (slot, weight)),
        }
    }

    /// It has nothing more to do, until its deadline if it has one.
    pub(crate) fn rest(&mut self, slot: NamespaceSlot) {
        if let Ok(place) = self.place(slot) {
            let (_, weight) = self.ready.remove(place);
            self.ready_weight -= u64::from(weight);
        }
    }

    fn place(&self, slot: NamespaceSlot) -> Result<usize, usize> {
        self.ready.binary_search_by_key(&slot, |(slot, _)| *slot)
    }

    /// Next time at which it has something to do.
    pub(crate) fn set_deadline(&mut self, slot: NamespaceSlot, deadline: Option<Timestamp>) {
        let index = usize::from(slot.0);
        if index >= self.deadlines.len() {
            if deadline.is_none() {
                return;
            }
            self.deadlines.resize(index + 1, None);
        }
        let Some(place) = self.deadlines.get_mut(index) else { return };
        if std::mem::replace(place, deadline) == deadline {
            return;
        }
        if let Some(deadline) = deadline {
            self.due.push(Reverse((deadline, slot)));
        }
        self.drop_stale();
    }

    /// Drops entries that do not hold any more: those in front always, and the others when they are too many.
    fn drop_stale(&mut self) {
        let deadlines = &self.deadlines;
        let holds = |(at, slot): &(Timestamp, NamespaceSlot)| {
            deadlines.get(usize::from(slot.0)).copied().flatten() == Some(*at)
        };
        if self.due.len() > STALE_MAX + 2 * deadlines.len() {
            self.due.retain(|Reverse(entry)| holds(entry));
        }
        while self.due.peek().is_some_and(|Reverse(entry)| !holds(entry)) {
            self.due.pop();
        }
    }

    /// It is gone.
    pub(crate) fn forget(&mut self, slot: NamespaceSlot) {
        self.rest(slot);
        self.set_deadline(slot, None);
    }

    /// The first deadline of all.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Whether a namespace is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Makes those ready whose deadline has come. `weight` gives the weight of a slot.
    pub(crate) fn wake_due(&mut self, now: Timestamp, weight: impl Fn(NamespaceSlot) -> u16) {
        while let Some(Reverse((at, slot))) = self.due.peek().copied()
            && at <= now
        {
            self.make_ready(slot, weight(slot));
            self.set_deadline(slot, None);
        }
    }

    /// Writes the namespaces whose turn it is in this round to `turn`, each once. Each is the first one in turn.
    pub(crate) fn take_turn(&mut self, turn: &mut Vec<NamespaceSlot>) {
        turn.clear();
        let behind = |(slot, _): &(NamespaceSlot, u16)| self.first.is_some_and(|first| *slot > first);
        let begin = self.ready.iter().position(behind).unwrap_or_default();
        let (before, from) = self.ready.split_at(begin);
        turn.extend(from.iter().chain(before).map(|(slot, _)| *slot));
        self.first = turn.first().copied();
    }

    /// Share of a namespace of this weight in `bytes` of a round.
    pub(crate) fn share(&self, slot: NamespaceSlot, weight: u16, bytes: u64) -> u64 {
        let weight = u64::from(weight.max(1));
        let own = self.place(slot).ok().and_then(|place| self.ready.get(place));
        let others = self.ready_weight - own.map_or(0, |(_, weight)| u64::from(*weight));
        if others == 0 {
            return bytes;
        }
        (bytes.saturating_mul(weight) / (weight + others)).max(1)
    }
}

/// Entries of deadlines that do not hold any more and are kept, beside one for each slot.
const STALE_MAX: usize = 64;

#[cfg(test)]
mod tests;
