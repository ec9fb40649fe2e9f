//! Instants at which something happens to messages of one store: lock ends, expiries, schedules.
//!
//! Invariant: every pushed instant is popped once it has come, unless `compact` found it void. An entry is a
//! reminder and not a fact: whoever pops it looks at the slot.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

use crate::Timestamp;

/// Most messages in one run, so that work can be cut into bounded pieces.
const RUN: u32 = 256;
/// Entries beyond twice the living that are always tolerated.
const SLACK: usize = 256;

/// Consecutive messages with the same instant.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Run {
    /// The instant.
    pub(crate) at: Timestamp,
    /// First number.
    pub(crate) first: u64,
    /// How many; at most 256.
    pub(crate) count: u32,
}

impl Run {
    /// Its numbers.
    pub(crate) fn sequences(self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(u64::from(self.count))
    }
}

/// Reminders in order of time. As a rule the next one is the latest, and often one more of the same millisecond:
/// a queue of runs takes those. The others go to a heap.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    runs: VecDeque<Run>,
    heap: BinaryHeap<Reverse<Run>>,
}

impl Deadlines {
    /// Reminds of `sequence` at `at`.
    pub(crate) fn push(&mut self, at: Timestamp, sequence: u64) {
        match self.runs.back_mut() {
            Some(last) if last.at == at && last.count < RUN && last.sequences().end == sequence => {
                last.count += 1;
            }
            Some(last) if at < last.at => self.heap.push(Reverse(Run { at, first: sequence, count: 1 })),
            _ => self.runs.push_back(Run { at, first: sequence, count: 1 }),
        }
    }

    /// The earliest instant, if any. It may belong to a void entry.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let run = self.runs.front().map(|run| run.at);
        let heap = self.heap.peek().map(|Reverse(run)| run.at);
        match (run, heap) {
            (Some(run), Some(heap)) => Some(run.min(heap)),
            (run, heap) => run.or(heap),
        }
    }

    /// Takes the earliest entry if its instant has come.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Run> {
        let at = self.next().filter(|at| *at <= now)?;
        if self.runs.front().is_some_and(|run| run.at == at) {
            self.runs.pop_front()
        } else {
            self.heap.pop().map(|Reverse(run)| run)
        }
    }

    /// Puts back what is left of a run that was taken: the part from number `from` on.
    pub(crate) fn put_back(&mut self, run: Run, from: u64) {
        let skipped = u32::try_from(from.saturating_sub(run.first)).unwrap_or(u32::MAX);
        let count = run.count.saturating_sub(skipped);
        if count > 0 {
            self.heap.push(Reverse(Run { at: run.at, first: from, count }));
        }
    }

    /// All entries, in no particular order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied().chain(self.heap.iter().map(|Reverse(run)| *run))
    }

    /// Whether so many entries are void, given `living` reminders that matter, that `compact` pays.
    pub(crate) fn is_bloated(&self, living: usize) -> bool {
        self.runs.len() + self.heap.len() > 2 * living + SLACK
    }

    /// Forgets the entries that are not `valid`.
    pub(crate) fn compact(&mut self, mut valid: impl FnMut(&Run) -> bool) {
        self.runs.retain(&mut valid);
        self.heap.retain(|Reverse(run)| valid(run));
        self.runs.shrink_to(2 * self.runs.len() + SLACK);
        self.heap.shrink_to(2 * self.heap.len() + SLACK);
    }
}

#[cfg(test)]
mod tests;
