//! Partitions, as the numbers of messages tell them.
//!
//! Invariant: a number says to which partition of its entity it belongs, and messages of one key belong to one.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::{Broken, EntityIndex, Location, ObservedDelivery, Session, broken};

/// Bits of a number below those of its partition (SEQ-2).
const COUNT_BITS: u32 = 48;
/// Number of partitions of an entity; partition ids begin with 1.
const PARTITIONS: u64 = 16;

/// Partitioned entities, and the partition of each key.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    /// The entities that have some.
    entities: BTreeSet<EntityIndex>,
    /// Partition of each key of an entity.
    of_keys: BTreeMap<(EntityIndex, Session), u64>,
}

impl Partitions {
    pub(super) fn new(entities: BTreeSet<EntityIndex>) -> Self {
        Self { entities, of_keys: BTreeMap::new() }
    }

    /// Whether the number of a message is one of its partition, and the partition that of its key. False where the
    /// entity has no partitions.
    pub(super) fn check(
        &mut self,
        observed: &ObservedDelivery,
        key: Option<Session>,
    ) -> Result<bool, Broken> {
        let partition = observed.sequence >> COUNT_BITS;
        let (whose, entity) = observed.location.numbers(observed.entity);
        if whose != Location::Home || !self.entities.contains(&entity) {
            return match partition {
                0 => Ok(false),
                _ => broken(observed.id, "a number has a partition only where there are some", observed),
            };
        }
        if !(1..=PARTITIONS).contains(&partition) {
            return broken(observed.id, "a number says its partition", observed);
        }
        let Some(key) = key else { return Ok(true) };
        let known = *self.of_keys.entry((entity, key)).or_insert(partition);
        if known == partition {
            Ok(true)
        } else {
            broken(observed.id, "one key, one partition", &(observed, known))
        }
    }
}
