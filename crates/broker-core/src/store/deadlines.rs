//! Instants at which something happens to messages of one store: lock ends, expiries, schedules.
//!
//! Invariant: every pushed instant is popped once it has come, unless `compact` found it void. An entry is a
//! reminder and not a fact: the slot decides.

mod ahead;

use std::collections::VecDeque;

use crate::Timestamp;
use ahead::Ahead;

/// Most messages in one run, so that work can be cut into bounded pieces.
const RUN: u32 = 256;
/// Entries beyond twice the living that are always tolerated.
const SLACK: usize = 256;

/// Consecutive messages with the same instant.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Run {
    pub(crate) at: Timestamp,
    /// First number.
    pub(crate) first: u64,
    /// At most 256.
    pub(crate) count: u32,
}

impl Run {
    /// Its numbers.
    pub(crate) fn sequences(self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(u64::from(self.count))
    }
}

/// Reminders in order of time. As a rule the next one is the latest, and often one more of the same millisecond:
/// a queue of runs takes those. The others are sorted.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    runs: VecDeque<Run>,
    ahead: Ahead,
}

impl Deadlines {
    /// Reminds of `sequence` at `at`.
    pub(crate) fn push(&mut self, at: Timestamp, sequence: u64) {
        match self.runs.back_mut() {
            Some(last) if last.at == at && last.count < RUN && last.sequences().end == sequence => {
                last.count += 1;
            }
            Some(last) if at < last.at => self.ahead.push(at, sequence, 1),
            _ => self.runs.push_back(Run { at, first: sequence, count: 1 }),
        }
    }

    /// The earliest instant, if any. It may belong to a void entry.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let run = self.runs.front().map(|run| run.at);
        match (run, self.ahead.first().map(|run| run.at)) {
            (Some(run), Some(ahead)) => Some(run.min(ahead)),
            (run, ahead) => run.or(ahead),
        }
    }

    /// Takes the earliest entry if its instant has come; among those of one instant the one with the lowest number, if it was put
    /// back or came out of order.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<Run> {
        self.next().filter(|at| *at <= now)?;
        match (self.runs.front(), self.ahead.first()) {
            (Some(run), Some(ahead)) if *run > ahead => self.ahead.pop(),
            (Some(_), _) => self.runs.pop_front(),
            (None, _) => self.ahead.pop(),
        }
    }

    /// Puts back what is left of a run that was taken: the part from number `from` on.
    pub(crate) fn put_back(&mut self, run: Run, from: u64) {
        let skipped = u32::try_from(from.saturating_sub(run.first)).unwrap_or(u32::MAX);
        let count = run.count.saturating_sub(skipped);
        if count > 0 {
            self.ahead.push(run.at, from, count);
        }
    }

    /// All entries, in no particular order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied().chain(self.ahead.iter())
    }

    /// The earliest instant of the entries that are `valid`. Looks at the void ones before it.
    pub(crate) fn earliest(&self, mut valid: impl FnMut(&Run) -> bool) -> Option<Timestamp> {
        let run = self.runs.iter().find(|run| valid(run)).map(|run| run.at);
        let sooner = self.ahead.iter().filter(|entry| run.is_none_or(|run| entry.at < run));
        sooner.filter(|entry| valid(entry)).map(|entry| entry.at).min().or(run)
    }

    /// Whether so many entries are void, given `living` reminders that matter, that `compact` pays.
    pub(crate) fn is_bloated(&self, living: usize) -> bool {
        self.runs.len() + self.ahead.len() > 2 * living + SLACK
    }

    /// Forgets the entries that are not `valid`.
    pub(crate) fn compact(&mut self, mut valid: impl FnMut(&Run) -> bool) {
        self.runs.retain(&mut valid);
        self.ahead.retain(&mut valid);
        self.runs.shrink_to(2 * self.runs.len() + SLACK);
    }
}

#[cfg(test)]
mod tests;
