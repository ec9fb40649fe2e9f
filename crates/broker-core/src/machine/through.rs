//! Messages that are sent through another entity ("send via"; `service-bus-entities` 12, 17).
//!
//! Invariant: such a message arrives at its target or, where the target's status does not allow it, among the transfer
//! dead letters of the entity between; never at both, and never in that entity itself.

use broker_filter::SystemProperty;

use super::{
    Core, dead_letter::with_reason, forward::Failure, partitions::Together, publish::more_of, status::Use,
    wake,
};
use crate::{
    ClientId, EntityPath, Message, Output, Properties, PublishError, QueueId, Ticket, Timestamp,
    merge::Answer,
    partition::PartitionId,
    record::{DURABLE, MessageIndex, OWN_TTL, encode_properties},
    slot::{Slot, State},
};

impl Core {
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn publish_through(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        through: &EntityPath,
        messages: &[Message],
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        let together = Together::of(messages);
        let done = self.resolve_through(path, through).and_then(|(queue, through)| {
            self.check_sent(queue, Some(through), messages, together, out)?;
            self.store_sent(now, queue, Some(through), messages, out);
            Ok(())
        });
        match (done, ticket) {
            (Err(error), ticket) => self.refuse_publish(client, ticket, error, out),
            (Ok(()), Some(ticket)) => self.merge.answer(client, Answer::Published, ticket, out),
            (Ok(()), None) => {}
        }
    }

    /// The main stores of a target and of the entity between.
    pub(super) fn resolve_through(
        &self,
        path: &EntityPath,
        through: &EntityPath,
    ) -> Result<(QueueId, QueueId), PublishError> {
        let find =
            |path: &EntityPath| self.resolve(path).ok_or_else(|| PublishError::NotFound(path.entity.clone()));
        Ok((find(path)?, find(through)?))
    }

    /// Refuses what neither the target takes nor, for its status alone, the entity between.
    pub(super) fn check_sent(
        &self,
        queue: QueueId,
        through: Option<QueueId>,
        messages: &[Message],
        together: Together,
        out: &impl Output,
    ) -> Result<(), PublishError> {
        match (self.check_publish(queue, messages, together, out), through) {
            (Err(PublishError::Disabled(_)), Some(through)) => self.check_room(through, messages, out),
            (checked, _) => checked.map(drop),
        }
    }

    /// Stores what was checked.
    pub(super) fn store_sent(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        through: Option<QueueId>,
        messages: &[Message],
        out: &mut impl Output,
    ) {
        let Some(entity) = self.main_of(queue) else { return };
        let (kind, name) = (entity.definition.kind, &entity.definition.name);
        match through.filter(|_| !entity.definition.settings.status.allows(Use::Send)) {
            None => self.store_checked(now, (queue, kind), messages, |_| {}, out),
            Some(through) => {
                let Some(failure) = Failure::of(&PublishError::Disabled(name.clone())) else { return };
                for message in messages {
                    self.divert(now, through, message, &failure, out);
                }
            }
        }
    }

    /// A message joins the transfer dead letters.
    fn divert(
        &mut self,
        now: Timestamp,
        through: QueueId,
        message: &Message,
        failure: &Failure,
        out: &mut impl Output,
    ) {
        let sequence = self.take_number(through, self.via_partition(now, message));
        let Some(target) = self.main_of(through).map(|entity| entity.definition.stores.transfer_dead_letter)
        else {
            return;
        };
        let properties = with_reason(Properties::default(), failure.reason, &failure.description);
        let properties = encode_properties(&properties);
        let expires_at = message.time_to_live.map_or(Timestamp::MAX, |ttl| now.after(ttl));
        let own = if message.time_to_live.is_some() { OWN_TTL } else { 0 };
        let index = MessageIndex {
            queue: target,
            sequence,
            enqueued_at: now,
            expires_at,
            delivery_count: 0,
            state: State::Active,
            flags: own | if message.durable { DURABLE } else { 0 },
            properties_length: u32::try_from(properties.len()).expect("a reason is short"),
            due: None,
            own_ttl: None,
            body: None,
            more: more_of(message, false),
        };
        let (position, length) = out.record(index.encode().as_slice(), &[&properties, &message.payload]);
        let Some(store) = self.stores.get_mut(&target) else { return };
        store.insert(sequence, Slot::new(position, length, now, expires_at));
        wake(store, &mut self.active);
    }

    /// The partition, in the entity between, that a message asks for.
    fn via_partition(&self, now: Timestamp, message: &Message) -> Option<PartitionId> {
        let facts = (self.config.describe)(now, &message.payload).properties?;
        let key = facts.system(SystemProperty::ViaPartitionKey)?;
        key.as_text().map(PartitionId::of_key)
    }
}
