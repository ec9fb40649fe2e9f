//! Numbers of partitioned entities, the keys that say which partition a message belongs to, and messages that come in
//! there (`docs/features/partitions.md`).
//!
//! Invariant: a number that one of the entity's messages has is not given out again. Messages of one key get rising
//! numbers of one partition. An entity without partitions has one row of numbers and pays nothing.

use super::{
    fan_out::FanOut,
    publish::Publisher,
    publish::SequenceSink,
    store_message::{MessageAttributes, extras_of},
    table::EntityTable,
};
use crate::{
    Message, Output, PartitionKeyError, QueueId,
    call::Cx,
    partition::PartitionId,
    record::{Definition, Stores},
    store::{Entity, Role, Store},
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

impl EntityTable {
    /// The number that the next message of an entity gets, in `wanted` if it has partitions and that is given. It is
    /// not taken before [`Definition::pass_number`].
    pub(crate) fn next_number(&mut self, queue: QueueId, wanted: Option<PartitionId>) -> u64 {
        let Some(entity) = self.stores.get(&queue).and_then(|store| store.entity()) else { return 0 };
        let definition = &entity.definition;
        let Some(counters) = &definition.partitions else { return definition.next_sequence };
        let partition = wanted.unwrap_or_else(|| counters.fairest());
        let (stores, mut number) = (definition.stores, counters.next(partition));
        // Only numbers that begin anew may be in use.
        while self.has_number(stores, number) {
            let Some(counters) = self.counters_mut(queue) else { return 0 };
            counters.pass(number);
            number = counters.next(partition);
        }
        number
    }

    /// Takes the next number of an entity.
    pub(crate) fn take_number(&mut self, queue: QueueId, wanted: Option<PartitionId>) -> u64 {
        let number = self.next_number(queue, wanted);
        self.pass_number(queue, number);
        number
    }

    /// Takes a number out of use: no message of the entity gets it.
    pub(crate) fn pass_number(&mut self, queue: QueueId, number: u64) {
        if let Some(definition) = self.stores.get_mut(&queue).and_then(|store| definition_mut(store)) {
            definition.pass_number(number);
        }
    }

    /// Whether this very store has something of this number.
    pub(crate) fn has_slot(&self, queue: QueueId, number: u64) -> bool {
        self.stores.get(&queue).is_some_and(|store| store.slots.get(number).is_some())
    }

    fn has_number(&self, stores: Stores, number: u64) -> bool {
        let stores = stores.all().into_iter().filter_map(|id| self.stores.get(&id));
        stores.into_iter().any(|store| store.slots.get(number).is_some())
    }

    fn counters_mut(&mut self, queue: QueueId) -> Option<&mut crate::partition::Counters> {
        definition_mut(self.stores.get_mut(&queue)?)?.partitions.as_deref_mut()
    }

    /// Partition of messages without a key that arrive together; `None` in an entity without partitions.
    pub(crate) fn fair_partition(&self, queue: QueueId) -> Option<PartitionId> {
        let definition = &self.stores.get(&queue)?.entity()?.definition;
        definition.partitions.as_ref().map(|counters| counters.fairest())
    }

    /// Partition of a message that arrives with others at a partitioned entity; `fair` is that of messages without a key.
    pub(crate) fn partition_of(
        &self,
        queue: QueueId,
        message: &Message,
        fair: Option<PartitionId>,
    ) -> Option<PartitionId> {
        let fair = fair?;
        let detects_duplicates = self.stores.get(&queue).is_some_and(|store| store.history.is_some());
        Some(message.key(detects_duplicates).map_or(fair, PartitionId::of_key))
    }
}

impl Publisher<'_> {
    /// Stores messages that were checked in a queue with partitions, where each has to get its number first.
    pub(crate) fn store_in_partitions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        mut numbers: SequenceSink<'_>,
    ) {
        let fair = self.messages.entities.fair_partition(queue);
        for message in messages {
            let partition = self.messages.entities.partition_of(queue, message, fair);
            let Some(store) = self.messages.store_mut(queue) else { return };
            if !store.is_first_copy(cx.now, message) {
                numbers.push(0);
                continue;
            }
            store.traffic.incoming += 1;
            let extras = extras_of(message, store.sessions.is_some());
            let attributes =
                MessageAttributes { partition, ..MessageAttributes::of(cx.now, message, extras) };
            numbers.push(FanOut::of(self.messages).accept_numbered(cx, queue, attributes, message.stored()));
        }
        if let Some(store) = self.messages.entities.stores.get_mut(&queue) {
            self.messages.entities.agenda.arm(store);
            self.messages.entities.agenda.wake(store);
        }
        self.messages.entities.note_history(cx, queue);
    }
}

impl Message {
    /// Key that decides the partition of a message: its session id, else its partition key, else, where duplicates are
    /// detected, its message-id.
    pub(crate) fn key(&self, or_id: bool) -> Option<&str> {
        let key = self.session_id.as_deref().or(self.partition_key.as_deref());
        key.or(self.message_id.as_deref().filter(|_| or_id))
    }
}

/// Check of the keys of messages that arrive together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BatchScope {
    /// They only travelled together.
    Independent,
    /// They are one batch: they belong to one partition.
    Batch,
    /// They belong to a transaction: each has a key, the same one.
    Transaction,
}

impl BatchScope {
    /// Scope of the messages of one send.
    pub(crate) fn of(messages: &[Message]) -> Self {
        if messages.len() > 1 { Self::Batch } else { Self::Independent }
    }
}

/// Refuses messages whose keys do not say one partition, where the entity has some.
pub(crate) fn check_partition_keys(
    store: &Store,
    entity: &Entity,
    messages: &[Message],
    scope: BatchScope,
) -> Result<(), PartitionKeyError> {
    if entity.definition.partitions.is_none() {
        return Ok(());
    }
    let name = || entity.definition.name.clone();
    for message in messages {
        match (&message.session_id, &message.partition_key) {
            (Some(session), Some(key)) if session != key => {
                return Err(PartitionKeyError::NotTheSession(name()));
            }
            _ => {}
        }
    }
    let or_id = store.history.is_some() || scope == BatchScope::Transaction;
    let mut keys = messages.iter().map(|message| message.key(or_id));
    if scope == BatchScope::Transaction && keys.clone().any(|key| key.is_none()) {
        return Err(PartitionKeyError::Missing(name()));
    }
    let first = keys.next().flatten();
    if scope != BatchScope::Independent && keys.any(|key| key != first) {
        return Err(PartitionKeyError::SeveralKeys(name()));
    }
    Ok(())
}

fn definition_mut(store: &mut Store) -> Option<&mut Definition> {
    if let Role::Main(entity) = &mut store.role { Some(&mut entity.definition) } else { None }
}
