//! Messages that wait for their time (`service-bus-entities` 8).
//!
//! Invariant: a scheduled message is activated once or cancelled once, never both: each is one call, and either
//! takes the message from the store.

use std::time::Duration;

use super::{
    Core,
    arrival::{Arrival, arrival, more_of, store_message},
    partitions::Together,
    publish::Numbers,
    status::Use,
    topic::{Incoming, overlay},
    wake,
};
use crate::{
    ClientId, Effect, EntityError, EntityKind, EntityPath, Message, Output, PublishError, QueueId,
    SequenceNumber, Ticket, Timestamp, merge::Answer, partition::PartitionId, record::OpenRecord,
    slot::State,
};

impl Core {
    pub(super) fn schedule(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        messages: &[Message],
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let mut sequences = Vec::with_capacity(messages.len());
        let found = self.resolve(path).ok_or_else(|| PublishError::NotFound(path.entity.clone()));
        let stored = found.and_then(|queue| {
            let messages = (messages, Together::Not);
            self.enqueue(now, queue, messages, Numbers::Told(&mut sequences), out)
        });
        match stored {
            Ok(()) => self.merge.effect(client, Effect::Scheduled { ticket, sequences }, out),
            Err(error) => self.refuse_publish(client, Some(ticket), error, out),
        }
    }

    pub(super) fn cancel_scheduled(
        &mut self,
        client: ClientId,
        path: &EntityPath,
        sequences: &[SequenceNumber],
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        match self.check_scheduled(path, sequences) {
            Ok(queue) => {
                self.discard_scheduled(queue, sequences, out);
                self.merge.answer(client, Answer::Settled, ticket, out);
            }
            Err(error) => self.merge.effect(client, Effect::RequestRefused { ticket, error }, out),
        }
    }

    /// The store where all these messages wait for their time.
    fn check_scheduled(
        &self,
        path: &EntityPath,
        sequences: &[SequenceNumber],
    ) -> Result<QueueId, EntityError> {
        let queue = self.resolve(path).ok_or_else(|| EntityError::NotFound(path.entity.clone()))?;
        self.check_wait(queue, &path.entity, sequences)?;
        Ok(queue)
    }

    /// Whether all these messages of a store wait for their time.
    pub(super) fn check_wait(
        &self,
        queue: QueueId,
        entity: &str,
        sequences: &[SequenceNumber],
    ) -> Result<(), EntityError> {
        self.check_use(queue, Use::Send)?;
        let store = self.stores.get(&queue).ok_or_else(|| EntityError::NotFound(entity.into()))?;
        let waits = |sequence: &&SequenceNumber| {
            store.slots.get(sequence.0).is_some_and(|slot| slot.state == State::Scheduled)
        };
        match sequences.iter().find(|sequence| !waits(sequence)) {
            None => Ok(()),
            Some(sequence) => {
                Err(EntityError::MessageNotFound { entity: entity.into(), sequence: *sequence })
            }
        }
    }

    /// Does what was checked.
    pub(super) fn discard_scheduled(
        &mut self,
        queue: QueueId,
        sequences: &[SequenceNumber],
        out: &mut impl Output,
    ) {
        self.touch(queue);
        // A number given twice is gone after the first.
        for sequence in sequences {
            self.discard(queue, sequence.0, out);
        }
    }

    /// Stores messages whose numbers were told before. One whose time has come meanwhile arrives as if it were sent now.
    pub(super) fn store_scheduled(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        messages: &[Message],
        numbers: &[u64],
        out: &mut impl Output,
    ) {
        let Some(kind) = self.kind_of(queue) else { return };
        self.touch(queue);
        for (message, number) in messages.iter().zip(numbers) {
            if message.scheduled_enqueue_time.is_none_or(|due| due <= now) {
                self.store_checked(now, (queue, kind), std::slice::from_ref(message), Numbers::Untold, out);
                continue;
            }
            let Some(store) = self.stores.get_mut(&queue) else { return };
            if store.is_first_copy(now, message) {
                store.traffic.incoming += 1;
                let more = more_of(message, store.sessions.is_some());
                store_message(store, *number, now, arrival(now, message, more), message.stored(), out);
            }
        }
        self.rearm(queue);
        self.note_history(queue);
    }

    /// A scheduled message arrives, as if it were sent now (SEQ-9). One that cannot be read stays, hidden.
    pub(super) fn activate(&mut self, now: Timestamp, queue: QueueId, sequence: u64, out: &mut impl Output) {
        self.touch(queue);
        let Ok(record) = self.read_message(queue, sequence, out) else {
            if let Some(store) = self.stores.get_mut(&queue) {
                store.set_damaged(sequence);
            }
            return;
        };
        let arrival = Arrival {
            time_to_live: record.index.own_ttl.map(Duration::from_millis),
            due: None,
            flags: record.index.flags,
            properties_length: record.index.properties_length,
            more: record.index.more.clone(),
            partition: PartitionId::of_number(sequence),
        };
        self.discard(queue, sequence, out);
        if self.kind_of(queue) == Some(EntityKind::Topic) {
            return self.activate_at_topic(now, queue, arrival, &record, out);
        }
        self.accept_numbered(now, queue, arrival, &record.rest, out);
        if let Some(store) = self.stores.get_mut(&queue) {
            wake(store, &mut self.active);
        }
    }

    /// Rules see a message when it arrives, not when it is sent.
    fn activate_at_topic(
        &mut self,
        now: Timestamp,
        topic: QueueId,
        arrival: Arrival,
        record: &OpenRecord,
        out: &mut impl Output,
    ) {
        let mut message = (self.config.describe)(now, &record.clone().into_payload());
        let mut facts = message.properties.take().map(|properties| *properties).unwrap_or_default();
        let stored = record.properties().unwrap_or_default();
        overlay(&mut facts, &stored);
        message.take_changes(&stored);
        let session = message.session_id.as_deref();
        self.begin_room();
        self.fan_out(now, topic, Incoming { arrival, facts, session, rest: &record.rest }, out);
    }
}
