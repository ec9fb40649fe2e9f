//! Reminders in any order of time, as many as there are.
//!
//! Invariant: behaves as a sorted multiset of runs. Each run is in `near` if it is before the first bucket, else in the
//! last bucket that begins at or before it; `near` is empty only if everything is. What a call moves at once is some
//! thousands of entries, unless more than that have the very same instant.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use super::Run;
use crate::Timestamp;

/// Entries that one heap takes, because it then lies near the processor.
const NEAR: usize = 1_024;
/// A bucket of so many entries is divided before its turn comes.
const BUCKET: usize = 32 * NEAR;
/// Into how many parts of the same length in time a bucket is divided.
const PARTS: u8 = 64;

/// The next reminders in a heap, the later ones unsorted in buckets of time: a heap of a million would be searched all
/// over for each of them.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    near: BinaryHeap<Reverse<Run>>,
    /// By the first instant that belongs to it. A bucket ends where the next begins.
    buckets: BTreeMap<Timestamp, Vec<Run>>,
    /// Entries in `near` at which it is divided.
    near_max: usize,
    /// Entries in all buckets.
    far: usize,
}

impl Ahead {
    pub(super) fn len(&self) -> usize {
        self.near.len() + self.far
    }

    /// Adds a run of `count` messages from number `first` on.
    pub(super) fn push(&mut self, at: Timestamp, first: u64, count: u32) {
        if let Some((start, bucket)) = self.buckets.range_mut(..=at).next_back() {
            let start = *start;
            bucket.push(Run { at, first, count });
            let length = bucket.len();
            self.far += 1;
            // At each doubling, for all of them may have the same instant.
            if length >= BUCKET && length.is_power_of_two() {
                self.divide(start);
            }
            return;
        }
        self.near.push(Reverse(Run { at, first, count }));
        if self.near.len() >= self.near_max.max(2 * NEAR) {
            let runs: Vec<Run> = std::mem::take(&mut self.near).into_iter().map(|Reverse(run)| run).collect();
            self.far += runs.len();
            self.buckets.insert(Timestamp::from_millis(0), runs);
            self.refill();
        }
    }

    /// The first.
    pub(super) fn first(&self) -> Option<Run> {
        self.near.peek().map(|Reverse(run)| *run)
    }

    /// Takes the first.
    pub(super) fn pop(&mut self) -> Option<Run> {
        let Reverse(run) = self.near.pop()?;
        if self.near.is_empty() {
            self.refill();
        }
        Some(run)
    }

    /// All entries, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Run> {
        let far = self.buckets.values().flatten().copied();
        self.near.iter().map(|Reverse(run)| *run).chain(far)
    }

    /// Forgets the entries that are not `valid`.
    pub(super) fn retain(&mut self, mut valid: impl FnMut(&Run) -> bool) {
        self.near.retain(|Reverse(run)| valid(run));
        self.near.shrink_to(2 * self.near.len() + NEAR);
        self.far = 0;
        self.buckets.retain(|_, bucket| {
            bucket.retain(&mut valid);
            bucket.shrink_to_fit();
            self.far += bucket.len();
            !bucket.is_empty()
        });
        if self.near.is_empty() {
            self.refill();
        }
    }

    /// Fills the empty heap from the first bucket that has something.
    fn refill(&mut self) {
        while let Some((start, bucket)) = self.buckets.first_key_value() {
            if bucket.len() > NEAR && self.divide(*start) {
                continue;
            }
            let Some((_, bucket)) = self.buckets.pop_first() else { return };
            self.far -= bucket.len();
            self.near = bucket.into_iter().map(Reverse).collect();
            self.near_max = 2 * self.near.len();
            if !self.near.is_empty() {
                return;
            }
        }
    }

    /// Divides a bucket, the first part of which begins where it began; says no where all have the same instant.
    fn divide(&mut self, start: Timestamp) -> bool {
        let Some(bucket) = self.buckets.get(&start) else { return false };
        let millis = || bucket.iter().map(|run| run.at.as_millis());
        let (Some(first), Some(last)) = (millis().min(), millis().max()) else { return false };
        if first == last {
            return false;
        }
        let width = (last - first) / u64::from(PARTS) + 1;
        let part = |run: &Run| (run.at.as_millis() - first) / width;
        let mut counts = [0; PARTS as usize];
        for run in bucket {
            if let Some(count) = usize::try_from(part(run)).ok().and_then(|part| counts.get_mut(part)) {
                *count += 1;
            }
        }
        let mut parts: Vec<Vec<Run>> = counts.into_iter().map(Vec::with_capacity).collect();
        for run in bucket {
            if let Some(part) = usize::try_from(part(run)).ok().and_then(|part| parts.get_mut(part)) {
                part.push(*run);
            }
        }
        for (number, part) in (0..).zip(parts).filter(|(_, part)| !part.is_empty()) {
            let begins = if number == 0 { start } else { Timestamp::from_millis(first + number * width) };
            self.buckets.insert(begins, part);
        }
        true
    }
}

#[cfg(test)]
mod tests;
