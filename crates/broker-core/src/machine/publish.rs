//! Messages come in.
//!
//! Invariant: all messages of one command get consecutive numbers, or none is stored.

use super::{
    Core,
    arrival::{accept, arrival, more_of},
    partitions::Together,
    wake,
};
use crate::{
    ClientId, Effect, EntityKind, EntityPath, Message, Output, PublishError, QueueId, SequenceNumber, Ticket,
    Timestamp, merge::Answer,
};

/// Who hears the numbers of messages.
pub(super) enum Numbers<'a> {
    Untold,
    Told(&'a mut Vec<SequenceNumber>),
}

impl Numbers<'_> {
    pub(super) fn tell(&mut self, number: u64) {
        if let Self::Told(numbers) = self {
            numbers.push(SequenceNumber(number));
        }
    }
}

impl Core {
    pub(super) fn publish(
        &mut self,
        now: Timestamp,
        client: ClientId,
        queue: QueueId,
        messages: &[Message],
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        match self.enqueue(now, queue, (messages, Together::of(messages)), Numbers::Untold, out) {
            Err(error) => self.refuse_publish(client, ticket, error, out),
            Ok(()) => {
                if let Some(ticket) = ticket {
                    self.merge.answer(client, Answer::Published, ticket, out);
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn publish_to(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        messages: &[Message],
        auto_create: bool,
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        match self.resolve_or_create(now, path, auto_create, out) {
            Ok(queue) => self.publish(now, client, queue, messages, ticket, out),
            Err(_) => self.refuse_publish(client, ticket, PublishError::NotFound(path.entity.clone()), out),
        }
    }

    pub(super) fn refuse_publish(
        &mut self,
        client: ClientId,
        ticket: Option<Ticket>,
        error: PublishError,
        out: &mut impl Output,
    ) {
        if let Some(ticket) = ticket {
            self.merge.effect(client, Effect::PublishRefused { ticket, error }, out);
        }
    }

    /// Stores messages, all or none, and tells the number of each; a dropped duplicate has none: zero.
    pub(super) fn enqueue(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        (messages, together): (&[Message], Together),
        numbers: Numbers<'_>,
        out: &mut impl Output,
    ) -> Result<(), PublishError> {
        let kind = self.check_publish(queue, messages, together, out)?;
        if kind == EntityKind::Topic {
            self.begin_room();
        }
        self.store_checked(now, (queue, kind), messages, numbers, out);
        Ok(())
    }

    /// Stores what was checked: at once, or when its transaction commits.
    pub(super) fn store_checked(
        &mut self,
        now: Timestamp,
        (queue, kind): (QueueId, EntityKind),
        messages: &[Message],
        mut numbers: Numbers<'_>,
        out: &mut impl Output,
    ) {
        self.touch(queue);
        if kind == EntityKind::Topic {
            return self.store_at_topic(now, queue, messages, numbers, out);
        }
        let Some(store) = self.stores.get_mut(&queue) else { return };
        if store.has_partitions {
            return self.store_in_partitions(now, queue, messages, numbers, out);
        }
        for message in messages {
            if !store.is_first_copy(now, message) {
                numbers.tell(0);
                continue;
            }
            store.traffic.incoming += 1;
            let more = more_of(message, store.sessions.is_some());
            numbers.tell(accept(store, now, arrival(now, message, more), message.stored(), out));
        }
        store.arm(&mut self.timers);
        wake(store, &mut self.active);
        self.note_history(queue);
    }
}
