//! Finds an unsettled delivery by its link and tag.
//!
//! Invariant: the index holds exactly the entries that were inserted and not removed.

/// An open-addressed table from a hash to the number of an entry that its owner keeps. It grows to
/// twice its entries, and gives its memory back when it is empty.
#[derive(Debug, Default)]
pub(crate) struct TagIndex {
    /// 0 is free; else the hash (odd) in the upper and the number in the lower half.
    slots: Vec<u64>,
    len: usize,
}

/// Smallest table that is allocated, in slots.
const MIN_SLOTS: usize = 8;

/// An empty table larger than this is freed, in slots.
const KEEP_SLOTS: usize = 4_096;

impl TagIndex {
    /// The numbers stored under `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u32) -> impl Iterator<Item = u32> {
        let hash = hash | 1;
        let mut at = self.home(hash);
        std::iter::from_fn(move || {
            loop {
                let slot = self.slots.get(at).copied().unwrap_or(0);
                if slot == 0 {
                    return None;
                }
                at = (at + 1) & (self.slots.len() - 1);
                if hash_of(slot) == hash {
                    return Some(number_of(slot));
                }
            }
        })
    }

    /// Stores `number` under `hash`.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, number: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.place(u64::from(hash | 1) << 32 | u64::from(number));
        self.len += 1;
    }

    /// Removes `number` from under `hash`.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u32, number: u32) {
        let wanted = u64::from(hash | 1) << 32 | u64::from(number);
        let mut at = self.home(hash | 1);
        loop {
            match self.slots.get(at) {
                Some(&slot) if slot == wanted => break,
                None | Some(0) => return,
                Some(_) => at = (at + 1) & (self.slots.len() - 1),
            }
        }
        self.close_gap(at);
        self.len -= 1;
        if self.len == 0 && self.slots.len() > KEEP_SLOTS {
            self.slots = Vec::new();
        }
    }

    /// Frees an empty table.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 {
            self.slots = Vec::new();
        }
    }

    /// Moves later entries of the same probe sequence into the freed slot, so that no entry is
    /// behind a free slot that its search would stop at.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots.get(at).copied().unwrap_or(0);
            if slot == 0 {
                break;
            }
            let from_home = at.wrapping_sub(self.home(hash_of(slot))) & mask;
            if from_home >= at.wrapping_sub(gap) & mask {
                self.set(gap, slot);
                gap = at;
            }
        }
        self.set(gap, 0);
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(MIN_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            self.place(slot);
        }
    }

    #[inline]
    fn place(&mut self, slot: u64) {
        let mut at = self.home(hash_of(slot));
        while self.slots.get(at).is_some_and(|&other| other != 0) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.set(at, slot);
    }

    #[inline]
    fn set(&mut self, at: usize, slot: u64) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    /// First slot of the search for `hash`. The table's size is a power of two.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        (hash >> 1) as usize & self.slots.len().wrapping_sub(1)
    }
}

#[inline]
const fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
const fn number_of(slot: u64) -> u32 {
    slot as u32
}

/// A keyed hash of a link and a tag.
#[inline]
pub(crate) fn hash_tag(seed: u64, link: u32, tag: &[u8]) -> u32 {
    let mut hash = seed ^ u64::from(link) ^ (tag.len() as u64) << 32;
    let mut chunks = tag.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.first_chunk().copied().map_or(0, u64::from_le_bytes);
        hash = fold(hash ^ word);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(chunks.remainder()) {
        *to = *from;
    }
    hash = fold(hash ^ u64::from_le_bytes(last));
    (hash >> 32) as u32
}

/// Mixes all bits into all bits: both halves of a product, folded.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are wanted, one at a time")]
const fn fold(word: u64) -> u64 {
    const ODD: u128 = 0xa076_1d64_78bd_642f;
    let product = (word ^ 0x9e37_79b9_7f4a_7c15) as u128 * ODD;
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests;
