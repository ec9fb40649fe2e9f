//! Scheduled messages: stored, activated when due, cancelled (`docs/features/schedules.md`).
//!
//! Invariant: a scheduled message is activated once or cancelled once, never both: each is one call, and either
//! takes the message from the store.

use std::time::Duration;

use super::{
    duplicates::is_first_copy,
    fan_out::FanOut,
    partition_keys::BatchScope,
    publisher::Publisher,
    sequence_sink::SequenceSink,
    store_message::{MessageAttributes, extras_of, store_message},
    topic_message::{TopicMessage, overlay},
};
use crate::{
    Effect, EntityError, EntityKind, EntityPath, Message, Output, PublishError, QueueId, SequenceNumber,
    Ticket,
    call::Cx,
    entity::status::Use,
    output_coalescer::Answer,
    record::OpenRecord,
    store::{partition::PartitionId, slot::State},
};

impl Publisher<'_> {
    pub(crate) fn schedule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        messages: &[Message],
        ticket: Ticket,
    ) {
        let mut sequences = Vec::with_capacity(messages.len());
        let found = self.messages.resolve(path).ok_or_else(|| PublishError::NotFound(path.entity.clone()));
        let stored = found.and_then(|queue| {
            self.enqueue(cx, queue, messages, BatchScope::Independent, SequenceSink::Collect(&mut sequences))
        });
        match stored {
            Ok(()) => cx.reply(Effect::Scheduled { ticket, sequences }),
            Err(error) => cx.refuse_publish(Some(ticket), error),
        }
    }

    pub(crate) fn cancel_scheduled(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        sequences: &[SequenceNumber],
        ticket: Ticket,
    ) {
        match self.check_scheduled(path, sequences) {
            Ok(queue) => {
                self.discard_scheduled(cx, queue, sequences);
                cx.answer(Answer::Settled, ticket);
            }
            Err(error) => cx.reply(Effect::RequestRefused { ticket, error }),
        }
    }

    /// The store where all these messages wait for their time.
    fn check_scheduled(
        &self,
        path: &EntityPath,
        sequences: &[SequenceNumber],
    ) -> Result<QueueId, EntityError> {
        let queue = self.messages.resolve(path).ok_or_else(|| EntityError::NotFound(path.entity.clone()))?;
        self.check_wait(queue, &path.entity, sequences)?;
        Ok(queue)
    }

    /// Whether all these messages of a store wait for their time.
    pub(crate) fn check_wait(
        &self,
        queue: QueueId,
        entity: &str,
        sequences: &[SequenceNumber],
    ) -> Result<(), EntityError> {
        self.messages.entities.check_use(queue, Use::Send)?;
        let store = self.messages.store(queue).ok_or_else(|| EntityError::NotFound(entity.into()))?;
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
    pub(crate) fn discard_scheduled(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequences: &[SequenceNumber],
    ) {
        self.messages.entities.touch(cx, queue);
        // A number that the request names twice is removed by the first.
        for sequence in sequences {
            self.messages.entities.discard(cx, queue, sequence.0);
        }
    }

    /// Stores messages whose numbers clients know already. One whose time has come meanwhile arrives as if it were sent
    /// now.
    pub(crate) fn store_scheduled(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        numbers: &[u64],
    ) {
        let Some(kind) = self.messages.entities.kind_of(queue) else { return };
        self.messages.entities.touch(cx, queue);
        for (message, number) in messages.iter().zip(numbers) {
            if message.scheduled_enqueue_time.is_none_or(|due| due <= cx.now) {
                self.store_checked(cx, queue, kind, std::slice::from_ref(message), SequenceSink::Discard);
                continue;
            }
            let Some(store) = self.messages.store_mut(queue) else { return };
            if is_first_copy(store, cx.now, message) {
                store.traffic.incoming += 1;
                let extras = extras_of(message, store.sessions.is_some());
                store_message(
                    cx,
                    store,
                    *number,
                    MessageAttributes::of(cx.now, message, extras),
                    message.stored(),
                );
            }
        }
        self.messages.entities.rearm(queue);
        self.messages.entities.note_history(cx, queue);
    }

    /// A scheduled message arrives, as if it were sent now (SEQ-9). One that cannot be read stays, hidden.
    pub(crate) fn activate(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        record: Option<OpenRecord>,
    ) {
        self.messages.entities.touch(cx, queue);
        let Some(record) = record else {
            if let Some(store) = self.messages.store_mut(queue) {
                store.set_damaged(sequence);
            }
            return;
        };
        let attributes = MessageAttributes {
            time_to_live: record.index.own_ttl.map(Duration::from_millis),
            due: None,
            flags: record.index.flags,
            properties_length: record.index.properties_length,
            extras: record.index.extras.clone(),
            partition: PartitionId::of_number(sequence),
        };
        self.messages.entities.discard(cx, queue, sequence);
        if self.messages.entities.kind_of(queue) == Some(EntityKind::Topic) {
            return self.activate_at_topic(cx, queue, attributes, &record);
        }
        FanOut::of(self.messages).accept_numbered(cx, queue, attributes, &record.rest);
        if let Some(store) = self.messages.entities.stores.get_mut(&queue) {
            self.messages.entities.agenda.wake(store);
        }
    }

    /// Rules see a message when it arrives, not when it is sent.
    fn activate_at_topic(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: QueueId,
        attributes: MessageAttributes,
        record: &OpenRecord,
    ) {
        let mut message = (self.messages.config.describe)(cx.now, &record.clone().into_payload());
        let mut facts = message.properties.take().map(|properties| *properties).unwrap_or_default();
        let stored = record.properties().unwrap_or_default();
        overlay(&mut facts, &stored);
        message.take_changes(&stored);
        let session = message.session_id.as_deref();
        cx.begin_step();
        FanOut::of(self.messages).fan_out(
            cx,
            topic,
            TopicMessage { attributes, facts, session, rest: &record.rest },
        );
    }
}
