//! Partitions, as the numbers of messages tell them.
//!
//! Invariant: a number says to which partition of its entity it belongs, and messages of one key belong to one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Broken, EntityIndex, Id, Location, Model, ObservedDelivery, Session, broken};

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

impl Model {
    /// The same model, knowing which entities have partitions.
    pub(crate) fn with_partitions(mut self, entities: BTreeSet<EntityIndex>) -> Self {
        self.partitions.entities = entities;
        self
    }

    /// A message has this key, at all of its entities.
    pub(crate) fn keyed(&mut self, id: Id, key: Session) {
        for (_, message) in self.messages.range_mut((id, EntityIndex::MIN)..=(id, EntityIndex::MAX)) {
            message.key = Some(key);
        }
    }

    /// Whether the number of a message is one of its partition.
    pub(super) fn check_partition(&mut self, observed: &ObservedDelivery) -> Result<(), Broken> {
        let partition = observed.sequence >> COUNT_BITS;
        let (whose, entity) = observed.location.numbers(observed.entity);
        if whose != Location::Home || !self.partitions.entities.contains(&entity) {
            return match partition {
                0 => Ok(()),
                _ => broken(observed.id, "a number has a partition only where there are some", observed),
            };
        }
        if !(1..=PARTITIONS).contains(&partition) {
            return broken(observed.id, "a number says its partition", observed);
        }
        self.count("numbers of partitions");
        let message = self.messages.get(&(observed.id, observed.entity));
        let Some(key) = message.and_then(|message| message.key) else { return Ok(()) };
        let known = *self.partitions.of_keys.entry((entity, key)).or_insert(partition);
        if known == partition {
            Ok(())
        } else {
            broken(observed.id, "one key, one partition", &(observed, known))
        }
    }
}
