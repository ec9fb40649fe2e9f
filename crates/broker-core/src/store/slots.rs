//! Table by sequence number of what a store keeps for each message: slots, or references of copies to bodies.
//!
//! Invariant: behaves as a sorted map. Memory follows the number of messages, not the span of their numbers: at
//! most about two slots' worth for each message, however the others were removed. The ring has at most two places for each of
//! its chunks that holds something, and [`GAP`] more.

use std::{
    collections::{BTreeMap, VecDeque},
    hint::black_box,
};

/// Numbers per chunk: one bit each in a word.
const CHUNK: u64 = 64;
/// Most slots that are prefetched together.
pub(crate) const PREFETCH_MAX: usize = 32;
/// Slots that may be wasted before anything is done about it.
const SLACK: usize = 256;
/// Empty places in the ring that are always tolerated.
const GAP: usize = 64;

/// Sorted map from sequence number to `T`, which is small and plain. Chunks of 64 numbers lie in a ring, so that the
/// usual life (in at the back, out near the front) costs no search. Stragglers far behind move, chunk by chunk, to a
/// tree.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// Chunk number of the ring's first place.
    base: u64,
    ring: VecDeque<Chunk<T>>,
    /// Chunks whose numbers lie before `base`.
    old: BTreeMap<u64, Chunk<T>>,
    /// Chunks in the ring that hold something.
    occupied: usize,
    /// Messages.
    live: usize,
    /// Slots kept, dead ones included.
    kept: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { base: 0, ring: VecDeque::new(), old: BTreeMap::new(), occupied: 0, live: 0, kept: 0 }
    }
}

impl<T: Copy> Slots<T> {
    /// Number of messages.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The slot of a message.
    pub(crate) fn get(&self, sequence: u64) -> Option<&T> {
        self.chunk(sequence / CHUNK)?.get(sequence % CHUNK)
    }

    /// The slots of several messages, for those that have one, in the same order. The address of a slot is in its
    /// chunk, which may be a cache miss itself, so all chunks are loaded first.
    pub(crate) fn prefetch<'a>(
        &'a self,
        sequences: impl Iterator<Item = u64>,
        found: &mut [Option<&'a T>; PREFETCH_MAX],
    ) {
        let mut chunks = [(None, 0); PREFETCH_MAX];
        for (chunk, sequence) in chunks.iter_mut().zip(sequences) {
            *chunk = (self.chunk(sequence / CHUNK), sequence % CHUNK);
        }
        black_box(chunks.iter().filter_map(|(chunk, _)| *chunk).fold(0, |sum, chunk| sum ^ chunk.live));
        for (found, (chunk, bit)) in found.iter_mut().zip(chunks) {
            *found = chunk.and_then(|chunk| chunk.get(bit));
        }
    }

    /// The slot of a message, to change it.
    pub(crate) fn get_mut(&mut self, sequence: u64) -> Option<&mut T> {
        let number = sequence / CHUNK;
        let chunk = match number.checked_sub(self.base) {
            Some(place) => self.ring.get_mut(usize::try_from(place).ok()?)?,
            None => self.old.get_mut(&number)?,
        };
        chunk.get_mut(sequence % CHUNK)
    }

    /// Puts a slot in; returns the one that was there.
    #[expect(clippy::inline_always, reason = "as for the store: the slot is written where it stays")]
    #[inline(always)]
    pub(crate) fn insert(&mut self, sequence: u64, slot: T) -> Option<T> {
        let chunk = self.make_chunk(sequence / CHUNK);
        let kept_before = chunk.slots.len();
        let replaced = chunk.insert(sequence % CHUNK, slot);
        let kept_after = chunk.slots.len();
        self.kept += kept_after - kept_before;
        self.live += usize::from(replaced.is_none());
        replaced
    }

    /// Takes a slot out.
    pub(crate) fn remove(&mut self, sequence: u64) -> Option<T> {
        let number = sequence / CHUNK;
        let slot = if let Some(place) = number.checked_sub(self.base) {
            let chunk = self.ring.get_mut(usize::try_from(place).ok()?)?;
            let slot = chunk.remove(sequence % CHUNK)?;
            if chunk.live == 0 {
                self.kept -= chunk.clear();
                self.occupied -= 1;
                self.trim();
            }
            slot
        } else {
            let chunk = self.old.get_mut(&number)?;
            let slot = chunk.remove(sequence % CHUNK)?;
            if chunk.live == 0 {
                self.kept -= chunk.slots.len();
                self.old.remove(&number);
            }
            slot
        };
        self.live -= 1;
        if self.kept > 2 * self.live + SLACK {
            self.compact();
        }
        Some(slot)
    }

    /// The lowest number at or after `from`.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        self.next_before(from, u64::MAX)
    }

    /// The lowest number at or after `from` and before `end`; looks no further than `end`.
    pub(crate) fn next_before(&self, from: u64, end: u64) -> Option<u64> {
        let found = if from / CHUNK < self.base { self.next_old(from, end) } else { None };
        found.or_else(|| self.next_in_ring(from, end)).filter(|sequence| *sequence < end)
    }

    fn next_old(&self, from: u64, end: u64) -> Option<u64> {
        let first = from / CHUNK;
        for (number, chunk) in self.old.range(first..) {
            if number * CHUNK >= end {
                return None;
            }
            if let Some(bit) = chunk.next(if *number == first { from % CHUNK } else { 0 }) {
                return Some(number * CHUNK + bit);
            }
        }
        None
    }

    fn next_in_ring(&self, from: u64, end: u64) -> Option<u64> {
        let first = from / CHUNK;
        let skip = usize::try_from(first.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let chunks = self.ring.range(skip.min(self.ring.len())..);
        for (number, chunk) in (self.base.max(first)..).zip(chunks) {
            if number * CHUNK >= end {
                return None;
            }
            if let Some(bit) = chunk.next(if number == first { from % CHUNK } else { 0 }) {
                return Some(number * CHUNK + bit);
            }
        }
        None
    }

    /// All of them in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let old = self.old.iter().map(|(number, chunk)| (*number, chunk));
        let ring = (self.base..).zip(&self.ring);
        old.chain(ring)
            .flat_map(|(number, chunk)| chunk.iter().map(move |(bit, slot)| (number * CHUNK + bit, slot)))
    }

    fn chunk(&self, number: u64) -> Option<&Chunk<T>> {
        match number.checked_sub(self.base) {
            Some(place) => self.ring.get(usize::try_from(place).ok()?),
            None => self.old.get(&number),
        }
    }

    /// The chunk with this number, made if it is missing.
    fn make_chunk(&mut self, number: u64) -> &mut Chunk<T> {
        if self.occupied == 0 && number != self.base {
            // Nothing is in the ring: it may begin wherever it is needed.
            self.ring.truncate(1);
            self.base = if self.old.is_empty() { number } else { number.max(self.base) };
        }
        let Some(place) = number.checked_sub(self.base) else {
            return self.old.entry(number).or_default();
        };
        let mut place = usize::try_from(place).unwrap_or(usize::MAX);
        // The next place is never too far: the ring has two places for each chunk that holds something, and a few more.
        if place >= self.ring.len() && place.saturating_add(1) > 2 * (self.occupied + 1) + GAP {
            // Too far ahead to fill the gap with empty places: begin again there.
            self.retire_all();
            self.base = number;
            place = 0;
        }
        if self.ring.len() == place && self.ring.back().is_some_and(Chunk::is_full) {
            // As the last one was filled, so will be this one.
            self.ring.push_back(Chunk { slots: Vec::with_capacity(64), ..Chunk::default() });
        }
        while self.ring.len() <= place {
            self.ring.push_back(Chunk::default());
        }
        #[expect(clippy::indexing_slicing, reason = "the loop above made this place")]
        let chunk = &mut self.ring[place];
        self.occupied += usize::from(chunk.live == 0);
        chunk
    }

    /// After a chunk of the ring fell empty: gives up empty places in front, and keeps gaps in bounds.
    fn trim(&mut self) {
        loop {
            while self.ring.len() > 1 && self.ring.front().is_some_and(|chunk| chunk.live == 0) {
                self.ring.pop_front();
                self.base += 1;
            }
            if self.ring.len() <= 2 * self.occupied + GAP {
                return;
            }
            self.retire_front();
        }
    }

    fn retire_front(&mut self) {
        if let Some(chunk) = self.ring.pop_front() {
            if chunk.live != 0 {
                self.old.insert(self.base, chunk);
                self.occupied -= 1;
            }
            self.base += 1;
        }
    }

    fn retire_all(&mut self) {
        while !self.ring.is_empty() {
            self.retire_front();
        }
    }

    /// Drops dead slots. Afterwards every chunk is more than 5/8 alive, and the next call comes when the average
    /// falls to a half: each removal pays for a constant part of it.
    fn compact(&mut self) {
        let mut saved = 0;
        for chunk in self.ring.iter_mut().chain(self.old.values_mut()) {
            saved += chunk.compact();
        }
        self.kept -= saved;
    }
}

/// Up to 64 slots. Bit `n` of a word stands for number `n` of the chunk.
#[derive(Debug)]
struct Chunk<T> {
    /// Which numbers have a message.
    live: u64,
    /// Which numbers have a place in `slots`.
    kept: u64,
    /// In order of number.
    slots: Vec<T>,
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self { live: 0, kept: 0, slots: Vec::new() }
    }
}

impl<T: Copy> Chunk<T> {
    fn is_full(&self) -> bool {
        self.kept == u64::MAX
    }

    fn index(&self, bit: u64) -> usize {
        (self.kept & ((1 << bit) - 1)).count_ones() as usize
    }

    fn get(&self, bit: u64) -> Option<&T> {
        if self.live >> bit & 1 == 0 { None } else { self.slots.get(self.index(bit)) }
    }

    fn get_mut(&mut self, bit: u64) -> Option<&mut T> {
        if self.live >> bit & 1 == 0 {
            return None;
        }
        let index = self.index(bit);
        self.slots.get_mut(index)
    }

    #[expect(clippy::inline_always, reason = "as for the store: the slot is written where it stays")]
    #[inline(always)]
    fn insert(&mut self, bit: u64, slot: T) -> Option<T> {
        let index = self.index(bit);
        if self.kept >> bit & 1 == 0 {
            if index == self.slots.len() {
                self.slots.push(slot);
            } else {
                self.slots.insert(index, slot);
            }
            self.kept |= 1 << bit;
            self.live |= 1 << bit;
            return None;
        }
        let was_live = self.live >> bit & 1 == 1;
        self.live |= 1 << bit;
        let place = self.slots.get_mut(index)?;
        let before = std::mem::replace(place, slot);
        was_live.then_some(before)
    }

    fn remove(&mut self, bit: u64) -> Option<T> {
        let slot = *self.get(bit)?;
        self.live &= !(1 << bit);
        Some(slot)
    }

    /// Forgets dead slots but keeps a small allocation, for a queue that is empty most of the time uses it again
    /// and again; says how many slots were dropped.
    fn clear(&mut self) -> usize {
        let dropped = self.slots.len();
        self.kept = 0;
        self.slots.clear();
        self.slots.shrink_to(4);
        dropped
    }

    fn next(&self, from: u64) -> Option<u64> {
        let rest = self.live & (u64::MAX << from);
        (rest != 0).then(|| u64::from(rest.trailing_zeros()))
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let bit = if from < CHUNK { self.next(from)? } else { return None };
            from = bit + 1;
            Some((bit, self.get(bit)?))
        })
    }

    /// Says how many slots were dropped.
    fn compact(&mut self) -> usize {
        let (live, kept) = (self.live.count_ones() as usize, self.slots.len());
        if live * 8 > kept * 5 {
            return 0;
        }
        let slots: Vec<T> = self.iter().map(|(_, slot)| *slot).collect();
        self.slots = slots;
        self.kept = self.live;
        kept - live
    }
}

#[cfg(test)]
mod tests;
