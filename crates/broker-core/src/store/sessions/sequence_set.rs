//! A set of sequence numbers, most often of very few.
//!
//! Invariant: behaves as a sorted set. Up to three numbers need no memory beside the set itself; more lie in a tree,
//! until none is left.

use std::collections::BTreeSet;

/// Numbers that lie in the set itself.
const FEW: usize = 3;

/// A sorted set of numbers, fast for a session: new numbers are the highest, and the lowest is removed first.
#[derive(Debug)]
pub(super) enum SequenceSet {
    /// The first `count` places, in order.
    Few { count: u8, places: [u64; FEW] },
    /// More than fitted once.
    Many(BTreeSet<u64>),
}

impl Default for SequenceSet {
    fn default() -> Self {
        Self::Few { count: 0, places: [0; FEW] }
    }
}

impl SequenceSet {
    fn few(count: u8, places: &[u64; FEW]) -> &[u64] {
        places.get(..usize::from(count)).unwrap_or(places)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    pub(super) fn first(&self) -> Option<u64> {
        match self {
            Self::Few { count, places } => Self::few(*count, places).first().copied(),
            Self::Many(tree) => tree.first().copied(),
        }
    }

    /// The lowest at or after `from`.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        match self {
            Self::Few { count, places } => {
                Self::few(*count, places).iter().copied().find(|number| *number >= from)
            }
            Self::Many(tree) => tree.range(from..).next().copied(),
        }
    }

    /// All of them in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        let (few, many) = match self {
            Self::Few { count, places } => (Self::few(*count, places), None),
            Self::Many(tree) => (&[][..], Some(tree.iter())),
        };
        few.iter().chain(many.into_iter().flatten()).copied()
    }

    pub(super) fn insert(&mut self, number: u64) {
        match self {
            Self::Many(tree) => drop(tree.insert(number)),
            Self::Few { count, places } => {
                let few = Self::few(*count, places);
                let Err(place) = few.binary_search(&number) else { return };
                if few.len() == FEW {
                    let tree = few.iter().copied().chain([number]).collect();
                    *self = Self::Many(tree);
                    return;
                }
                *count += 1;
                let end = usize::from(*count);
                if let Some(moved) = places.get_mut(place..end) {
                    moved.rotate_right(1);
                }
                if let Some(free) = places.get_mut(place) {
                    *free = number;
                }
            }
        }
    }

    /// Says whether it was there.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        match self {
            Self::Many(tree) => {
                let was_there = tree.remove(&number);
                if tree.is_empty() {
                    *self = Self::default();
                }
                was_there
            }
            Self::Few { count, places } => {
                let few = Self::few(*count, places);
                let Ok(place) = few.binary_search(&number) else { return false };
                let end = few.len();
                if let Some(moved) = places.get_mut(place..end) {
                    moved.rotate_left(1);
                }
                *count -= 1;
                true
            }
        }
    }
}

#[cfg(test)]
mod tests;
