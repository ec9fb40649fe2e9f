//! Records that stay in memory when the chunks that held them are forgotten.
//!
//! Invariant: a run is here as long as one of its records is alive, and its bytes are those that were appended.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::chunk::{Piece, piece_before};
use crate::owner::Owner;

/// Retained runs, by position and by owner.
#[derive(Debug, Default)]
pub(crate) struct RetainedRuns {
    runs: BTreeMap<u64, RetainedRun>,
    by_owner: BTreeSet<(Owner, u64)>,
    /// Memory of all of them.
    bytes: u64,
}

/// Consecutive records of one owner.
#[derive(Debug)]
pub(crate) struct RetainedRun {
    pub owner: Owner,
    /// Not empty, ascending.
    pub pieces: Vec<Piece>,
    /// Bytes of its records that are alive.
    pub live: u64,
    /// Bytes of memory that it takes.
    pub bytes: u64,
}

impl RetainedRun {
    fn start(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.start)
    }

    fn end(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end)
    }
}

/// Memory that an owner no longer takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Freed {
    pub owner: Owner,
    pub bytes: u64,
}

impl RetainedRuns {
    /// Memory that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn insert(&mut self, run: RetainedRun) {
        self.bytes += run.bytes;
        self.by_owner.insert((run.owner, run.start()));
        self.runs.insert(run.start(), run);
    }

    /// The bytes that hold `at`, and where in them that is.
    pub(crate) fn holding(&self, at: u64) -> Option<(&Bytes, usize)> {
        let (_, run) = self.runs.range(..=at).next_back()?;
        let piece = piece_before(&run.pieces, at)?;
        let place = usize::try_from(at - piece.start).ok()?;
        (place < piece.bytes.len()).then_some((&piece.bytes, place))
    }

    /// A record is dead. The run goes when it was the last one.
    pub(crate) fn release(&mut self, at: u64, bytes: u64) -> Option<Freed> {
        let (start, run) = self.runs.range_mut(..=at).next_back()?;
        if at >= run.end() {
            return None;
        }
        debug_assert!(run.live >= bytes, "released twice: {at}");
        run.live = run.live.saturating_sub(bytes);
        let start = *start;
        if run.live > 0 {
            return None;
        }
        self.remove(start)
    }

    /// Drops the oldest run of an owner.
    pub(crate) fn drop_oldest(&mut self, owner: Owner) -> Option<Freed> {
        let (of, start) = *self.by_owner.range((owner, 0)..).next()?;
        if of == owner { self.remove(start) } else { None }
    }

    /// Drops a run that ends at or before `tail`, if there is one.
    pub(crate) fn drop_before(&mut self, tail: u64) -> Option<Freed> {
        let (start, run) = self.runs.first_key_value()?;
        if run.end() <= tail { self.remove(*start) } else { None }
    }

    fn remove(&mut self, start: u64) -> Option<Freed> {
        let run = self.runs.remove(&start)?;
        self.by_owner.remove(&(run.owner, start));
        self.bytes -= run.bytes;
        Some(Freed { owner: run.owner, bytes: run.bytes })
    }
}

/// Memory that a retained run takes beside its records: entries of the two trees, the list of its pieces, and what the
/// allocator and the count of references need.
pub(crate) const RETAINED_RUN_BYTES: u64 = 256;

#[cfg(test)]
mod tests;
