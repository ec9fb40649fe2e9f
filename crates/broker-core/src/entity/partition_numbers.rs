//! Numbers of partitioned entities, the keys that say which partition a message belongs to, and messages that come in
//! there (`docs/features/partitions.md`).
//!
//! Invariant: a number that one of the entity's messages has is not given out again. Messages of one key get rising
//! numbers of one partition. An entity without partitions has one row of numbers and pays nothing.

use super::table::EntityTable;
use crate::{
    Message, QueueId,
    id_map::IdMap,
    record::{Definition, Stores},
    store::{
        Role, Store,
        partition::{Counters, PartitionId},
    },
};

impl Definition {
    /// The number that the next message gets, where any partition will do.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number_in(None)
    }

    /// The same, in `wanted` if there are partitions and that is given.
    pub(crate) fn next_number_in(&self, wanted: Option<PartitionId>) -> u64 {
        let partitions = self.partitions.as_ref();
        partitions.map_or(self.next_sequence, |counters| {
            counters.next(wanted.unwrap_or_else(|| counters.fairest()))
        })
    }

    /// A message got this number.
    pub(crate) fn pass_number(&mut self, number: u64) {
        match &mut self.partitions {
            Some(counters) => counters.pass(number),
            None => self.next_sequence = number + 1,
        }
    }
}

/// Gives out the sequence numbers of entities.
#[derive(Debug)]
pub(crate) struct SequenceNumbers<'a> {
    stores: &'a mut IdMap<QueueId, Box<Store>>,
}

impl<'a> SequenceNumbers<'a> {
    pub(crate) fn of(entities: &'a mut EntityTable) -> Self {
        Self { stores: &mut entities.stores }
    }
}

impl SequenceNumbers<'_> {
    /// The number that the next message of an entity gets, in `wanted` if it has partitions and that is given. It is
    /// not taken before [`Definition::pass_number`].
    pub(crate) fn next(&mut self, queue: QueueId, wanted: Option<PartitionId>) -> u64 {
        let Some(entity) = self.stores.get(&queue).and_then(|store| store.entity()) else { return 0 };
        let definition = &entity.definition;
        let Some(counters) = &definition.partitions else { return definition.next_sequence };
        let partition = wanted.unwrap_or_else(|| counters.fairest());
        let (stores, mut number) = (definition.stores, counters.next(partition));
        // Only the numbers of a partition that has rolled over can be in use.
        while self.has_number(stores, number) {
            let Some(counters) = self.counters(queue) else { return 0 };
            counters.pass(number);
            number = counters.next(partition);
        }
        number
    }

    /// Takes the next number of an entity.
    pub(crate) fn take(&mut self, queue: QueueId, wanted: Option<PartitionId>) -> u64 {
        let number = self.next(queue, wanted);
        self.pass(queue, number);
        number
    }

    /// Takes a number out of use: no message of the entity gets it.
    pub(crate) fn pass(&mut self, queue: QueueId, number: u64) {
        if let Some(definition) = self.stores.get_mut(&queue).and_then(|store| definition_mut(store)) {
            definition.pass_number(number);
        }
    }

    fn has_number(&self, stores: Stores, number: u64) -> bool {
        let stores = stores.all().into_iter().filter_map(|id| self.stores.get(&id));
        stores.into_iter().any(|store| store.slots.get(number).is_some())
    }

    fn counters(&mut self, queue: QueueId) -> Option<&mut Counters> {
        definition_mut(self.stores.get_mut(&queue)?)?.partitions.as_deref_mut()
    }
}

impl EntityTable {
    /// Whether this very store has a message or a body of this number.
    pub(crate) fn has_slot(&self, queue: QueueId, number: u64) -> bool {
        self.stores.get(&queue).is_some_and(|store| store.slots.get(number).is_some())
    }

    /// Partition of messages without a key that arrive together; `None` in an entity without partitions.
    pub(crate) fn fair_partition(&self, queue: QueueId) -> Option<PartitionId> {
        let definition = &self.stores.get(&queue)?.entity()?.definition;
        definition.partitions.as_ref().map(|counters| counters.fairest())
    }

    /// Partition of a message that arrives with others at a partitioned entity; `fair` is that of messages without a
    /// key.
    pub(crate) fn partition_of(
        &self,
        queue: QueueId,
        message: &Message,
        fair: Option<PartitionId>,
    ) -> Option<PartitionId> {
        let fair = fair?;
        let detects_duplicates = self.stores.get(&queue).is_some_and(|store| store.history.is_some());
        Some(message.key(detects_duplicates).map_or(fair, |key| PartitionId::of_key(&key)))
    }
}

fn definition_mut(store: &mut Store) -> Option<&mut Definition> {
    if let Role::Main(entity) = &mut store.role { Some(&mut entity.definition) } else { None }
}
