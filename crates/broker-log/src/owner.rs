//! Owners of records, among whom the memory of a journal is shared.
//!
//! Invariant: an owner is a number of the caller's, and the journal gives it no further meaning. It is not on disk.

/// The owner of a record. Records that were appended without one belong to the default owner.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(pub u16);

impl Owner {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Figures of one owner.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OwnerStats {
    /// Its weight among the others.
    pub weight: u64,
    /// Bytes of memory for its records that are alive.
    pub cached_bytes: u64,
    /// Its records that were not found in memory since the start.
    pub disk_reads: u64,
    /// Bytes that were read from the disk for that.
    pub disk_read_bytes: u64,
}

/// Weights of the owners: an owner of weight 2 gets twice as much as one of weight 1, where both want more than there is.
#[derive(Debug, Default)]
pub(crate) struct Weights(Vec<u16>);

impl Weights {
    /// The weight of an owner; 1 if none was set.
    pub(crate) fn of(&self, owner: Owner) -> u64 {
        self.0.get(owner.index()).copied().unwrap_or(DEFAULT_WEIGHT).into()
    }

    pub(crate) fn set(&mut self, owner: Owner, weight: u16) {
        let weight = weight.max(DEFAULT_WEIGHT);
        match self.0.get_mut(owner.index()) {
            Some(place) => *place = weight,
            None if weight == DEFAULT_WEIGHT => {}
            None => {
                self.0.resize(owner.index(), DEFAULT_WEIGHT);
                self.0.push(weight);
            }
        }
    }
}

const DEFAULT_WEIGHT: u16 = 1;

#[cfg(test)]
mod tests;
