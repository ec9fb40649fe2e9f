//! History of duplicate detection: the message-ids that an entity has seen.
//!
//! Invariant: an id is known until the window after it was noted has passed, to the millisecond, without regard to the
//! fate of its message; afterwards it is not. Each id costs about a hundred bytes, and is kept for the window and at
//! most an eighth of it more.

mod digest;
mod places;

pub(crate) use digest::Digest;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    EntitySettings, Output, Position, QueueId, Timestamp,
    record::{HISTORY_IDS_MAX, HistoryRun, encode_forgotten, encode_history},
};
use places::Places;

/// Ids are forgotten together once the oldest is this part of the window over it, so that a trickle of messages does
/// not cost a deadline each.
const SLICES: u32 = 8;
/// Shortest time between two rounds of forgetting.
const SLICE_MIN: Duration = Duration::from_secs(1);

/// The ids that were noted in one call of the core.
#[derive(Clone, Copy, Debug)]
struct Run {
    number: u64,
    at: Timestamp,
    position: Position,
    length: u32,
    /// Number of digests of `digests` that belong to the run.
    count: u32,
}

/// The ids of one entity.
#[derive(Debug)]
pub(crate) struct History {
    /// Duplicate detection window: time for which an id is kept.
    pub(crate) window: Duration,
    places: Places,
    /// In order of number and of time.
    runs: VecDeque<Run>,
    /// Those of all runs, one run after the other, then those that no run has yet.
    digests: VecDeque<Digest>,
    /// Number of digests at the end of `digests` that belong to no run yet.
    open: usize,
    open_at: Timestamp,
    /// Number of the next run.
    next: u64,
    /// Runs that replay has found so far.
    found: BTreeMap<u64, Found>,
}

/// A run that replay has found.
#[derive(Debug)]
struct Found {
    at: Timestamp,
    position: Position,
    length: u32,
    digests: Vec<Digest>,
}

impl History {
    /// `seed` decides about the places in a hash table and nothing that shows.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            window: EntitySettings::default().duplicate_detection_window,
            places: Places::new(seed),
            runs: VecDeque::new(),
            digests: VecDeque::new(),
            open: 0,
            open_at: Timestamp::default(),
            next: 0,
            found: BTreeMap::new(),
        }
    }

    /// Whether an id was noted within the window.
    pub(crate) fn has(&self, id: &Digest, now: Timestamp) -> bool {
        self.places.get(id).is_some_and(|at| now < at.after(self.window))
    }

    /// Notes an id. Nothing is recorded before [`History::record`].
    pub(crate) fn note(&mut self, id: Digest, now: Timestamp) {
        if self.open == 0 {
            // A restart may find the clock set back: the order of the runs is their order in time.
            let last = self.runs.back().map_or(Timestamp::default(), |run| run.at);
            self.open_at = now.max(last);
        }
        self.places.insert(id, self.open_at);
        self.digests.push_back(id);
        self.open += 1;
    }

    /// Whether something is noted and not recorded.
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Number of ids that are kept in memory and not yet in a record.
    pub(crate) fn open_ids(&self) -> usize {
        self.open
    }

    /// Number of ids that are kept.
    pub(crate) fn len(&self) -> usize {
        self.digests.len()
    }

    /// Records what was noted since the last time.
    pub(crate) fn record(&mut self, queue: QueueId, out: &mut impl Output) {
        while self.open > 0 {
            let count = self.open.min(HISTORY_IDS_MAX);
            let from = self.digests.len() - self.open;
            let digests = self.digests.range(from..from + count);
            let (number, at) = (self.next, self.open_at);
            let (position, length) = out.record(&encode_history(queue, number, at, digests), &[]);
            let count32 = u32::try_from(count).unwrap_or(u32::MAX);
            self.runs.push_back(Run { number, at, position, length, count: count32 });
            self.next += 1;
            self.open -= count;
        }
    }

    /// When [`History::forget`] has something to do.
    pub(crate) fn forget_at(&self) -> Option<Timestamp> {
        let slice = (self.window / SLICES).max(SLICE_MIN);
        self.runs.front().map(|run| run.at.after(self.window).after(slice))
    }

    /// Forgets ids whose window has passed: whole runs, until `most` ids are dropped. Returns their number.
    pub(crate) fn forget(&mut self, queue: QueueId, now: Timestamp, most: u32, out: &mut impl Output) -> u32 {
        let (mut forgotten, window) = (0, self.window);
        while forgotten < most
            && let Some(run) = self.runs.front().copied().filter(|run| run.at.after(window) <= now)
        {
            self.runs.pop_front();
            for _ in 0..run.count {
                if let Some(id) = self.digests.pop_front() {
                    self.places.remove(&id, run.at);
                }
            }
            out.release(run.position, run.length);
            forgotten += run.count;
        }
        if forgotten > 0 {
            let kept_from = self.runs.front().map_or(self.next, |run| run.number);
            let (position, length) = out.record(&encode_forgotten(queue, kept_from), &[]);
            // It lies behind the records that it refers to, which the journal drops first: compaction need not keep it.
            out.release(position, length);
            self.places.shrink();
            self.digests.shrink_to(2 * self.digests.len());
            self.runs.shrink_to(2 * self.runs.len());
        }
        forgotten
    }

    /// Takes in a run that the journal holds.
    pub(crate) fn replay(&mut self, run: HistoryRun, position: Position, length: u32) {
        let HistoryRun { number, at, digests, .. } = run;
        self.next = self.next.max(number.saturating_add(1));
        self.found.insert(number, Found { at, position, length, digests });
    }

    /// Replays that the runs before `kept_from` were dropped.
    pub(crate) fn replay_forgotten(&mut self, kept_from: u64) {
        self.next = self.next.max(kept_from);
        self.found = self.found.split_off(&kept_from);
    }

    /// After the last record.
    pub(crate) fn finish(&mut self) {
        for (number, found) in std::mem::take(&mut self.found) {
            let Found { at, position, length, digests } = found;
            let count = u32::try_from(digests.len()).unwrap_or(u32::MAX);
            self.runs.push_back(Run { number, at, position, length, count });
            for id in digests {
                self.places.insert(id, at);
                self.digests.push_back(id);
            }
        }
    }

    /// The record at `at` with this run is to be moved, if it is alive.
    pub(crate) fn relocate(&mut self, run: &HistoryRun, at: Position, record: &[u8], out: &mut impl Output) {
        let place = self.runs.partition_point(|known| known.number < run.number);
        let Some(known) = self.runs.get_mut(place).filter(|known| known.position == at) else { return };
        out.release(at, known.length);
        (known.position, known.length) = out.record(record, &[]);
    }

    /// Takes out one record that is alive, of a history that is to be forgotten whole.
    pub(crate) fn pop_record(&mut self) -> Option<(Position, u32)> {
        let run = self.runs.pop_front()?;
        for _ in 0..run.count {
            self.digests.pop_front();
        }
        Some((run.position, run.length))
    }

    /// Position and length of each record that is alive.
    pub(crate) fn live_records(&self) -> impl Iterator<Item = (Position, u32)> {
        let found = self.found.values().map(|found| (found.position, found.length));
        self.runs.iter().map(|run| (run.position, run.length)).chain(found)
    }

    /// Number, time and ids of each run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, Timestamp, impl Iterator<Item = &Digest>)> {
        let mut from = 0;
        self.runs.iter().map(move |run| {
            let first = from;
            from += run.count as usize;
            (run.number, run.at, self.digests.range(first..from))
        })
    }
}

#[cfg(test)]
mod tests;
