//! Messages come in.
//!
//! Invariant: all messages of one command get consecutive numbers, or none is stored.

use super::{
    checks::PublishChecks,
    duplicates::is_first_copy,
    fan_out::FanOut,
    partition_keys::BatchScope,
    sequence_sink::SequenceSink,
    store_message::{MessageAttributes, accept, extras_of},
};
use crate::{
    EntityKind, EntityPath, Message, Output, PublishError, QueueId, Ticket, admin::entities::EntityAdmin,
    call::Cx, messages::Messages, output_coalescer::Answer,
};

/// Stores messages that come in.
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> Publisher<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl Publisher<'_> {
    pub(crate) fn publish(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        ticket: Option<Ticket>,
    ) {
        match self.enqueue(cx, queue, messages, BatchScope::of(messages), SequenceSink::Discard) {
            Err(error) => cx.refuse_publish(ticket, error),
            Ok(()) => {
                if let Some(ticket) = ticket {
                    cx.answer(Answer::Published, ticket);
                }
            }
        }
    }

    pub(crate) fn publish_to(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        messages: &[Message],
        auto_create: bool,
        ticket: Option<Ticket>,
    ) {
        match EntityAdmin::of(self.messages).resolve_or_create(cx, path, auto_create) {
            Ok(queue) => self.publish(cx, queue, messages, ticket),
            Err(error) => cx.refuse_publish(ticket, PublishError::not_created(&path.entity, error)),
        }
    }

    /// Stores messages, all or none, and passes on the number of each: zero for a dropped duplicate.
    pub(crate) fn enqueue(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        scope: BatchScope,
        numbers: SequenceSink<'_>,
    ) -> Result<(), PublishError> {
        let kind = PublishChecks::of(self.messages).check_publish(cx, queue, messages, scope)?;
        if kind == EntityKind::Topic {
            cx.begin_step();
        }
        self.store_checked(cx, queue, kind, messages, numbers);
        Ok(())
    }

    /// Stores what was checked: at once, or when its transaction commits.
    pub(crate) fn store_checked(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        kind: EntityKind,
        messages: &[Message],
        mut numbers: SequenceSink<'_>,
    ) {
        self.messages.entities.touch(cx, queue);
        if kind == EntityKind::Topic {
            return FanOut::of(self.messages).store_at_topic(cx, queue, messages, numbers);
        }
        let Some(store) = self.messages.entities.stores.get_mut(&queue) else { return };
        if store.has_partitions {
            return self.store_in_partitions(cx, queue, messages, numbers);
        }
        for message in messages {
            if !is_first_copy(store, cx.now, message) {
                numbers.push(0);
                continue;
            }
            store.traffic.incoming += 1;
            let extras = extras_of(message, store.sessions.is_some());
            numbers.push(accept(cx, store, MessageAttributes::of(cx.now, message, extras), message.stored()));
        }
        self.messages.entities.agenda.arm(store);
        self.messages.entities.agenda.wake(store);
        self.messages.entities.note_history(cx, queue);
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
            if !is_first_copy(store, cx.now, message) {
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
