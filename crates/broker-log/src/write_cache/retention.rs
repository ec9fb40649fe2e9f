//! Retention: which records stay in memory when the cache is full.
//!
//! Invariant: of an owner, the newest living records up to its share of the cache stay in memory, however much others append.
//! A run stays as a whole while one of its records is alive, and counts as a whole. Where one owner alone has something in the
//! cache, nothing is retained, and the newest chunks stay.

use bytes::Bytes;

use super::{
    chunk::{Chunk, Piece},
    retained::{Freed, RETAINED_RUN_BYTES, RetainedRun, RetainedRuns},
    runs::{Run, Runs},
    shares::CacheShares,
};
use crate::owner::{Owner, Weights};

/// Retained runs, and the shares of their owners in the cache.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    retained: RetainedRuns,
    shares: CacheShares,
}

impl Retention {
    /// Memory of the retained runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.retained.bytes()
    }

    /// Bytes of memory for the living records of an owner, in chunks and in retained runs.
    pub(crate) fn held(&self, owner: Owner) -> u64 {
        self.shares.held(owner)
    }

    /// The retained bytes that hold `at`, and the place of `at` in them.
    pub(crate) fn holding(&self, at: u64) -> Option<(&Bytes, usize)> {
        self.retained.holding(at)
    }

    /// A run came into a chunk.
    pub(crate) fn add_run(&mut self, run: &Run) {
        self.shares.add_run(run.owner, run.live());
    }

    /// So many bytes of an owner died in a chunk.
    #[inline]
    pub(crate) fn release_in_chunk(&mut self, owner: Owner, bytes: u64) {
        self.shares.release(owner, bytes);
    }

    /// The record at `at`, which lies before the chunks, is dead.
    pub(crate) fn release(&mut self, at: u64, bytes: u64) {
        if let Some(Freed { owner, bytes }) = self.retained.release(at, bytes) {
            self.shares.remove_retained(owner, bytes);
        }
    }

    /// The runs of a chunk leave it, and nothing of them is retained.
    pub(crate) fn forget_runs(&mut self, chunk: &Chunk) {
        for run in chunk.runs.as_slice() {
            self.shares.remove_run(run.owner, run.live());
        }
    }

    /// Drops retained runs that end at or before `tail`.
    pub(crate) fn forget_before(&mut self, tail: u64) {
        while let Some(freed) = self.retained.drop_before(tail) {
            self.shares.remove_retained(freed.owner, freed.bytes);
        }
    }

    /// Computes the shares in a cache of `keep` bytes that has `excess` bytes too many, if they are due. Owners with more than
    /// their share lose retained runs, the oldest first, until so much is free.
    pub(crate) fn prepare(&mut self, keep: u64, mut excess: u64, weights: &Weights) {
        if !self.shares.is_due() {
            return;
        }
        self.shares.compute(keep, weights);
        if self.retained.is_empty() {
            return;
        }
        let mut number = 0;
        while let Some(owner) = self.shares.present(number) {
            while excess > 0
                && self.shares.is_over(owner, weights)
                && let Some(freed) = self.drop_oldest_of(owner)
            {
                excess = excess.saturating_sub(freed);
            }
            number += 1;
        }
    }

    /// A chunk is forgotten: its runs that live and are in their owners' shares are retained. It loses its pieces if no copy was
    /// needed. Gives the bytes that were copied. `open` is the owner whose records come next.
    pub(crate) fn take_over(&mut self, chunk: &mut Chunk, open: Owner, weights: &Weights) -> u64 {
        self.shares.note_forgotten();
        if !self.shares.is_shared(open) {
            self.forget_runs(chunk);
            return 0;
        }
        match &chunk.runs {
            Runs::None => 0,
            Runs::One(run) => {
                // Its memory holds nothing else.
                if self.leave(run, chunk.bytes, weights) {
                    self.retain(run, std::mem::take(&mut chunk.pieces), chunk.bytes);
                }
                0
            }
            Runs::Many(runs) => {
                let ends = runs.iter().skip(1).map(|next| next.start).chain([chunk.end]);
                let mut copied = 0;
                for (run, end) in runs.iter().zip(ends) {
                    if self.leave(run, run.bytes, weights) {
                        self.retain(run, chunk.copies(run.start, end), run.bytes);
                        copied += run.bytes;
                    }
                }
                copied
            }
        }
    }

    /// A run leaves its chunk. Whether it is to be retained, where it takes `bytes` of memory: its owner's older runs make room
    /// for it.
    fn leave(&mut self, run: &Run, bytes: u64, weights: &Weights) -> bool {
        self.shares.remove_run(run.owner, run.live());
        if run.live() == 0 {
            return false;
        }
        let (bytes, share) = (bytes + RETAINED_RUN_BYTES, self.shares.share(run.owner, weights));
        let newer = self.shares.held(run.owner) - self.shares.retained(run.owner);
        if newer + bytes > share {
            return false;
        }
        while self.shares.held(run.owner) + bytes > share && self.drop_oldest_of(run.owner).is_some() {}
        true
    }

    fn retain(&mut self, run: &Run, pieces: Vec<Piece>, bytes: u64) {
        let bytes = bytes + RETAINED_RUN_BYTES;
        self.shares.add_retained(run.owner, bytes);
        self.retained.insert(RetainedRun { owner: run.owner, pieces, live: run.live(), bytes });
    }

    /// Drops the oldest retained run of an owner. Gives the memory that it took.
    fn drop_oldest_of(&mut self, owner: Owner) -> Option<u64> {
        let freed = self.retained.drop_oldest(owner)?;
        self.shares.remove_retained(owner, freed.bytes);
        Some(freed.bytes)
    }
}

#[cfg(test)]
mod tests;
