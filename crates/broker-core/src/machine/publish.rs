//! Messages come in.
//!
//! Invariant: all messages of one command get consecutive numbers, or none is stored.

use super::{
    admission::PublishChecks,
    arrival::{accept, arrival, extras_of},
    entities::EntityAdmin,
    messages::Messages,
    partitions::Together,
    topic::FanOut,
};
use crate::{
    EntityKind, EntityPath, Message, Output, PublishError, QueueId, SequenceNumber, Ticket, call::Cx,
    merge::Answer,
};

/// Receiver of the numbers that messages get.
pub(crate) enum Numbers<'a> {
    Untold,
    Told(&'a mut Vec<SequenceNumber>),
}

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

impl Numbers<'_> {
    pub(crate) fn tell(&mut self, number: u64) {
        if let Self::Told(numbers) = self {
            numbers.push(SequenceNumber(number));
        }
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
        match self.enqueue(cx, queue, messages, Together::of(messages), Numbers::Untold) {
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
            Err(_) => cx.refuse_publish(ticket, PublishError::NotFound(path.entity.clone())),
        }
    }

    /// Stores messages, all or none, and tells the number of each; a dropped duplicate has none: zero.
    pub(crate) fn enqueue(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        together: Together,
        numbers: Numbers<'_>,
    ) -> Result<(), PublishError> {
        let kind = PublishChecks::of(self.messages).check_publish(cx, queue, messages, together)?;
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
        mut numbers: Numbers<'_>,
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
            if !store.is_first_copy(cx.now, message) {
                numbers.tell(0);
                continue;
            }
            store.traffic.incoming += 1;
            let extras = extras_of(message, store.sessions.is_some());
            numbers.tell(accept(cx, store, arrival(cx.now, message, extras), message.stored()));
        }
        self.messages.entities.agenda.arm(store);
        self.messages.entities.agenda.wake(store);
        self.messages.entities.note_history(cx, queue);
    }
}
