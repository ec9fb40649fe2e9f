//! Runs: the stretches of one chunk that belong to one owner each.
//!
//! Invariant: runs ascend, each ends where the next one begins, and no two neighbours have one owner.

use crate::owner::Owner;

/// Consecutive records of one owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub owner: Owner,
    pub start: u64,
    /// Bytes of its records.
    pub bytes: u64,
    /// Those among them that are dead.
    pub dead: u64,
}

impl Run {
    pub(crate) fn begin(owner: Owner, start: u64) -> Self {
        Self { owner, start, bytes: 0, dead: 0 }
    }

    /// Bytes of its records that are alive.
    pub(crate) fn live(&self) -> u64 {
        self.bytes.saturating_sub(self.dead)
    }

    #[inline]
    pub(crate) fn release(&mut self, at: u64, bytes: u64) {
        self.dead += bytes;
        debug_assert!(self.dead <= self.bytes, "released twice: {at}");
    }
}

/// Runs of a chunk. Most often the whole chunk is one, for which no further memory is looked at.
#[derive(Debug, Default)]
pub(crate) enum Runs {
    #[default]
    None,
    One(Run),
    Many(Vec<Run>),
}

impl Runs {
    pub(crate) fn push(&mut self, run: Run) {
        match self {
            Self::None => *self = Self::One(run),
            Self::One(first) => *self = Self::Many(vec![*first, run]),
            Self::Many(runs) => runs.push(run),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Run] {
        match self {
            Self::None => &[],
            Self::One(run) => std::slice::from_ref(run),
            Self::Many(runs) => runs,
        }
    }

    /// The run that holds `at`.
    #[inline]
    pub(crate) fn holding(&mut self, at: u64) -> Option<&mut Run> {
        match self {
            Self::None => None,
            Self::One(run) => Some(run),
            Self::Many(runs) => {
                let index = runs.partition_point(|run| run.start <= at).checked_sub(1)?;
                runs.get_mut(index)
            }
        }
    }

    /// Memory that they take beside the chunk.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::None | Self::One(_) => 0,
            Self::Many(runs) => runs.len() as u64 * RUN_BYTES,
        }
    }
}

/// A list of runs grows by doubling.
const RUN_BYTES: u64 = 2 * size_of::<Run>() as u64;

#[cfg(test)]
mod tests;
