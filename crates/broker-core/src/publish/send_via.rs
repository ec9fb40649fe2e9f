//! Send via: messages go to their entity through a transfer queue (`docs/features/transactions.md`, "Several
//! entities").
//!
//! Invariant: such a message arrives at its target or, where the target's status does not allow it, among the transfer
//! dead letters of the entity between; never at both, and never in that entity itself.

use std::borrow::Cow;

use broker_filter::SystemProperty;

use super::{
    checks::PublishChecks,
    forward::Failure,
    partition_keys::BatchScope,
    publisher::Publisher,
    sequence_sink::SequenceSink,
    store_message::{MessageAttributes, extras_of},
};
use crate::{
    EntityPath, Message, Output, Properties, PublishError, QueueId, Ticket, Timestamp,
    call::Cx,
    entity::{partition_numbers::SequenceNumbers, status::Use},
    output_coalescer::Answer,
    record::encode_properties,
    settle::dead_letter::with_reason,
    store::{append_message::append_message, partition::PartitionId},
};

impl Publisher<'_> {
    pub(crate) fn publish_via(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        via: &EntityPath,
        messages: &[Message],
        ticket: Option<Ticket>,
    ) {
        let scope = BatchScope::of(messages);
        let done = PublishChecks::of(self.messages).resolve_via(path, via).and_then(|(queue, via)| {
            PublishChecks::of(self.messages).check_sent(cx, queue, Some(via), messages, scope)?;
            cx.begin_step();
            self.store_sent(cx, queue, Some(via), messages);
            Ok(())
        });
        match (done, ticket) {
            (Err(error), ticket) => cx.refuse_publish(ticket, error),
            (Ok(()), Some(ticket)) => cx.answer(Answer::Published, ticket),
            (Ok(()), None) => {}
        }
    }

    /// Stores what was checked.
    pub(crate) fn store_sent(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        via: Option<QueueId>,
        messages: &[Message],
    ) {
        let Some(entity) = self.messages.main_of(queue) else { return };
        let (kind, name) = (entity.definition.kind, &entity.definition.name);
        match via.filter(|_| !entity.definition.settings.status.allows(Use::Send)) {
            None => self.store_checked(cx, queue, kind, messages, SequenceSink::Discard),
            Some(via) => {
                let Some(failure) = Failure::of(&PublishError::Disabled(name.clone())) else { return };
                for message in messages {
                    self.transfer_dead_letter(cx, via, message, &failure);
                }
            }
        }
    }

    /// A message joins the transfer dead letters.
    fn transfer_dead_letter(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        via: QueueId,
        message: &Message,
        failure: &Failure,
    ) {
        let partition = PublishChecks::of(self.messages).via_partition(cx.now, via, message);
        let sequence = SequenceNumbers::of(&mut self.messages.entities).take(via, partition);
        let Some(target) =
            self.messages.main_of(via).map(|entity| entity.definition.stores.transfer_dead_letter)
        else {
            return;
        };
        let properties = with_reason(Properties::default(), failure.reason, &failure.description);
        let properties = encode_properties(&properties);
        let expires_at = message.time_to_live.map_or(Timestamp::MAX, |ttl| cx.now.after(ttl));
        let attributes = MessageAttributes {
            due: None,
            properties_length: u32::try_from(properties.len()).expect("a reason is short"),
            ..MessageAttributes::of(cx.now, message, extras_of(message, false))
        };
        let index = attributes.index(target, sequence, cx.now, expires_at);
        let slot = append_message(&index, &[&properties, &message.payload], cx.out);
        let Some(store) = self.messages.entities.stores.get_mut(&target) else { return };
        store.insert(sequence, slot);
        self.messages.entities.agenda.wake(store);
    }
}

impl PublishChecks<'_> {
    /// The main stores of a target and of the entity between.
    pub(crate) fn resolve_via(
        self,
        path: &EntityPath,
        via: &EntityPath,
    ) -> Result<(QueueId, QueueId), PublishError> {
        let find = |path: &EntityPath| {
            self.messages.resolve(path).ok_or_else(|| PublishError::NotFound(path.entity.clone()))
        };
        Ok((find(path)?, find(via)?))
    }

    /// Refuses what neither the target takes nor, for its status alone, the entity between.
    pub(crate) fn check_sent(
        self,
        cx: &Cx<'_, impl Output>,
        queue: QueueId,
        via: Option<QueueId>,
        messages: &[Message],
        scope: BatchScope,
    ) -> Result<(), PublishError> {
        match (self.check_publish(cx, queue, messages, scope), via) {
            (Err(PublishError::Disabled(_)), Some(via)) => self.check_room(via, messages, cx.out),
            (checked, _) => checked.map(drop),
        }
    }

    /// The partition of the entity between that a message asks for.
    fn via_partition(self, now: Timestamp, via: QueueId, message: &Message) -> Option<PartitionId> {
        let fair = self.messages.entities.fair_partition(via)?;
        Some(self.via_key(now, message).map_or(fair, |key| PartitionId::of_key(&key)))
    }

    /// The key by which a message that goes to `queue` belongs to a partition of `entity`: the same one, or the one
    /// that it goes through.
    pub(crate) fn key_at(
        self,
        now: Timestamp,
        entity: QueueId,
        queue: QueueId,
        message: &Message,
    ) -> Option<Box<str>> {
        if entity == queue { message.key(true).map(Cow::into) } else { self.via_key(now, message) }
    }

    /// Key that decides the partition of a message in the transfer entity: its via-partition key, else the same key as
    /// elsewhere.
    fn via_key(self, now: Timestamp, message: &Message) -> Option<Box<str>> {
        let facts = (self.messages.config.describe)(now, &message.payload).properties;
        let key = facts.as_ref().and_then(|facts| facts.system(SystemProperty::ViaPartitionKey));
        key.and_then(|key| key.as_text().map(Box::from)).or_else(|| message.key(true).map(Cow::into))
    }
}
