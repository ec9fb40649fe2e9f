//! Queue of those that wait for a turn, which the namespaces that they belong to share by weight.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996): a key has a virtual start time, which each of its turns moves on by the
//! cost of the turn divided by the weight of the key. The turn is that of the key with the earliest one. A key that comes
//! begins at the virtual time of the turn that was given last, so it has no credit for the time in which it wanted nothing.
//!
//! Invariant: of two keys that both wait all the time, neither gets more than one turn ahead of its share. A turn costs what
//! was measured, not what was expected.

use std::collections::{BTreeMap, BTreeSet};

/// A turn that is waited for, or that lasts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct TurnId(u64);

/// The part that a turn is about. Within a key those that have begun come first: what was spent on them would be lost if they
/// waited for too long.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Step {
    Continue,
    Begin,
}

/// The queue. A turn lasts from [`TurnQueue::grant`] to [`TurnQueue::leave`].
#[derive(Debug)]
pub(crate) struct TurnQueue<K> {
    /// Turns that may last at the same time.
    at_once: usize,
    /// Cost of a turn, until it is known.
    expected_cost: u64,
    last_id: u64,
    running: usize,
    virtual_time: u128,
    entries: BTreeMap<TurnId, Entry<K>>,
    keys: BTreeMap<K, Share>,
    /// Keys that wait, by their virtual start times.
    waiting: BTreeSet<(u128, K)>,
    /// Keys that want nothing at present and have had more than their share, by their virtual start times.
    ahead: BTreeSet<(u128, K)>,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    state: EntryState,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EntryState {
    Waiting(Step),
    Running { charged: u128 },
}

/// State of one key.
#[derive(Debug)]
struct Share {
    weight: u16,
    /// Virtual start time of its next turn.
    start: u128,
    waiting: BTreeSet<(Step, TurnId)>,
    running: usize,
}

impl<K: Clone + Ord> TurnQueue<K> {
    /// A queue in which `at_once` turns may last at the same time.
    pub(crate) fn new(at_once: usize, expected_cost: u64) -> Self {
        Self {
            at_once: at_once.max(1),
            expected_cost,
            last_id: 0,
            running: 0,
            virtual_time: 0,
            entries: BTreeMap::new(),
            keys: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ahead: BTreeSet::new(),
        }
    }

    /// Waits for a turn. The key has this weight from now on.
    pub(crate) fn enter(&mut self, key: K, weight: u16, step: Step) -> TurnId {
        self.last_id += 1;
        let id = TurnId(self.last_id);
        let now = self.virtual_time;
        let share = self.keys.entry(key.clone()).or_insert_with(|| Share {
            weight,
            start: now,
            waiting: BTreeSet::new(),
            running: 0,
        });
        share.weight = weight.max(1);
        if share.waiting.is_empty() {
            self.ahead.remove(&(share.start, key.clone()));
            share.start = share.start.max(now);
            self.waiting.insert((share.start, key.clone()));
        }
        share.waiting.insert((step, id));
        self.entries.insert(id, Entry { key, state: EntryState::Waiting(step) });
        id
    }

    /// The next turn begins, unless as many as may last do so already.
    pub(crate) fn grant(&mut self) -> Option<TurnId> {
        if self.running >= self.at_once {
            return None;
        }
        let (start, key) = self.waiting.pop_first()?;
        let share = self.keys.get_mut(&key)?;
        let (_, id) = share.waiting.pop_first()?;
        let charged = virtual_cost(self.expected_cost, share.weight);
        share.start = start.saturating_add(charged);
        share.running += 1;
        if !share.waiting.is_empty() {
            self.waiting.insert((share.start, key));
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.state = EntryState::Running { charged };
        }
        self.running += 1;
        self.virtual_time = self.virtual_time.max(start);
        self.forget_those_behind();
        Some(id)
    }

    /// Whether this turn has begun.
    pub(crate) fn is_running(&self, id: TurnId) -> bool {
        self.entries.get(&id).is_some_and(|entry| matches!(entry.state, EntryState::Running { .. }))
    }

    /// The turn is over, and has cost so much; or it is not waited for any more.
    pub(crate) fn leave(&mut self, id: TurnId, cost: u64) {
        let Some(Entry { key, state }) = self.entries.remove(&id) else { return };
        let Some(share) = self.keys.get_mut(&key) else { return };
        self.waiting.remove(&(share.start, key.clone()));
        match state {
            EntryState::Waiting(step) => {
                share.waiting.remove(&(step, id));
            }
            EntryState::Running { charged } => {
                let cost = virtual_cost(cost, share.weight);
                share.start = share.start.saturating_add(cost).saturating_sub(charged);
                share.running -= 1;
                self.running -= 1;
            }
        }
        let after = (share.start, key.clone());
        if !share.waiting.is_empty() {
            self.waiting.insert(after);
        } else if share.running == 0 {
            self.ahead.insert(after);
        }
        self.forget_those_behind();
    }

    /// A key that wants nothing and has had no more than its share is as one that was never there.
    fn forget_those_behind(&mut self) {
        let is_idle = self.entries.is_empty();
        while let Some((start, key)) = self.ahead.pop_first() {
            if start > self.virtual_time && !is_idle {
                self.ahead.insert((start, key));
                return;
            }
            self.keys.remove(&key);
        }
        if is_idle {
            self.virtual_time = 0;
        }
    }
}

/// Virtual time that a cost takes: the less, the larger the weight.
fn virtual_cost(cost: u64, weight: u16) -> u128 {
    // In millionths: a share of the largest weight is still a number of many digits.
    u128::from(cost) * 1_000_000 / u128::from(weight.max(1))
}

#[cfg(test)]
mod tests;
