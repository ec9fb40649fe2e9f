//! Selectors of consumers, and the position of each in the store.
//!
//! Invariant: for each consumer with a selector, a ready message lies ahead of its cursor, or in the part of the log
//! that it has not read, or among the numbers that it visits again, or it was matched and refused.

use std::collections::{BTreeSet, VecDeque};

use broker_filter::{Filter, PropertySet};

use super::{partition::SequenceCursor, slot::ConsumerNumber, slots::Slots};

/// Most numbers of returned messages that a store's log, or one consumer, keeps. Beyond it a consumer visits all
/// messages again, a bounded part at a time.
const RETURNED_MAX: usize = 4_096;

/// Selector of one consumer, and the numbers that it has passed.
#[derive(Debug)]
pub(crate) struct Selection {
    filter: Filter,
    cursor: SequenceCursor,
    /// Numbers behind the cursor whose messages returned.
    again: BTreeSet<u64>,
    /// Number of entries of the store's log that it has processed.
    log_position: u64,
}

/// A store's selecting consumers.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    /// Those with credit, in turn.
    pub(crate) ring: VecDeque<ConsumerNumber>,
    /// All of them.
    pub(crate) count: u64,
    /// Numbers of messages that became ready behind others, the latest last.
    log: VecDeque<u64>,
    /// Number of entries that were dropped from the log.
    forgotten: u64,
}

impl Selectors {
    /// A message is ready again.
    pub(crate) fn note(&mut self, sequence: u64) {
        if self.log.len() >= RETURNED_MAX {
            self.log.pop_front();
            self.forgotten += 1;
        }
        self.log.push_back(sequence);
    }

    fn end(&self) -> u64 {
        self.forgotten + self.log.len() as u64
    }
}

impl Selection {
    /// A selection that begins with all messages of the store.
    pub(crate) fn new(filter: Filter) -> Self {
        Self { filter, cursor: SequenceCursor::default(), again: BTreeSet::new(), log_position: 0 }
    }

    /// Reads the log of returned messages.
    pub(crate) fn catch_up(&mut self, selectors: &Selectors, has_partitions: bool) {
        let end = selectors.end();
        if self.log_position == end {
            return;
        }
        let news = end - self.log_position.max(selectors.forgotten);
        if self.log_position < selectors.forgotten || self.again.len() as u64 + news > RETURNED_MAX as u64 {
            self.cursor = SequenceCursor::default();
            self.again.clear();
        } else {
            let cursor = &self.cursor;
            let seen = selectors.log.range(selectors.log.len() - usize::try_from(news).unwrap_or(0)..);
            self.again.extend(seen.filter(|number| cursor.has_passed(has_partitions, **number)));
        }
        self.log_position = end;
    }

    /// Whether it has read the whole log.
    pub(crate) fn has_caught_up(&self, selectors: &Selectors) -> bool {
        self.log_position == selectors.end()
    }

    /// The next message to match. Call [`Self::catch_up`] first: the log may name others.
    pub(crate) fn next<T: Copy>(&self, has_partitions: bool, slots: &Slots<T>) -> Option<u64> {
        let first = self.again.first().copied();
        first.or_else(|| self.cursor.next(has_partitions, |from, end| slots.next_before(from, end)))
    }

    /// Passes a message that was matched.
    pub(crate) fn pass(&mut self, has_partitions: bool, sequence: u64) {
        if !self.again.remove(&sequence) {
            self.cursor.pass(has_partitions, sequence);
        }
    }

    /// Whether a message with these properties matches, and the steps that `LIKE` took. An error in the selector's
    /// evaluation does not match.
    pub(crate) fn wants(&self, facts: &PropertySet) -> (bool, u64) {
        let (answer, steps) = self.filter.matches_counted(facts, &mut || 0);
        (answer.unwrap_or(false), steps)
    }
}

#[cfg(test)]
mod tests;
