//! Messages that are sent through another entity ("send via"; `service-bus-entities` 12, 17).
//!
//! Invariant: such a message arrives at its target or, where the target's status does not allow it, among the transfer
//! dead letters of the entity between; never at both, and never in that entity itself.

use broker_filter::SystemProperty;

use super::{
    Core, arrival::more_of, dead_letter::with_reason, forward::Failure, partitions::Together,
    publish::Numbers, status::Use, wake,
};
use crate::{
    ClientId, EntityPath, Message, Output, PartitionKeyError, Properties, PublishError, QueueId, Ticket,
    Timestamp,
    merge::Answer,
    open_transactions::Key,
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
            self.begin_room();
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
            None => self.store_checked(now, (queue, kind), messages, Numbers::Untold, out),
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
        let sequence = self.take_number(through, self.via_partition(now, through, message));
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

    /// The partition of the entity between that a message asks for.
    fn via_partition(&self, now: Timestamp, through: QueueId, message: &Message) -> Option<PartitionId> {
        let fair = self.fair_partition(through)?;
        Some(self.via_key(now, message).map_or(fair, |key| PartitionId::of_key(&key)))
    }

    /// Refuses a key that is not that of everything else which a transaction sends to, or through, the same partitioned
    /// entity. `to` is where the messages go, and what they go through.
    pub(super) fn check_same_key(
        &self,
        now: Timestamp,
        key: Key,
        to: (QueueId, Option<QueueId>),
        messages: &[Message],
    ) -> Result<(), PublishError> {
        let (queue, through) = to;
        for entity in [Some(queue), through.filter(|through| *through != queue)].into_iter().flatten() {
            let Some(partitioned) =
                self.main_of(entity).filter(|entity| entity.definition.partitions.is_some())
            else {
                continue;
            };
            let name = || partitioned.definition.name.clone();
            let sent = self.transactions.work(key).iter().find_map(|work| work.sends_to(entity));
            let mut first = sent.map(|(to, message)| self.key_at(now, entity, to, message));
            // Only what goes to the entity itself was looked at already.
            let those = if entity == queue { messages.get(..1).unwrap_or_default() } else { messages };
            for message in those {
                let own = self.key_at(now, entity, queue, message);
                if own.is_none() {
                    return Err(PartitionKeyError::Missing(name()).into());
                }
                if *first.get_or_insert_with(|| own.clone()) != own {
                    return Err(PartitionKeyError::SeveralKeys(name()).into());
                }
            }
        }
        Ok(())
    }

    /// The key by which a message that goes to `queue` belongs to a partition of `entity`: the same one, or the one that
    /// it goes through.
    fn key_at(&self, now: Timestamp, entity: QueueId, queue: QueueId, message: &Message) -> Option<Box<str>> {
        if entity == queue { message.key(true).map(Box::from) } else { self.via_key(now, message) }
    }

    /// What says to which partition of the entity between a message belongs: its via-partition key, else what says it
    /// anywhere else.
    fn via_key(&self, now: Timestamp, message: &Message) -> Option<Box<str>> {
        let facts = (self.config.describe)(now, &message.payload).properties;
        let key = facts.as_ref().and_then(|facts| facts.system(SystemProperty::ViaPartitionKey));
        key.and_then(|key| key.as_text().map(Box::from)).or_else(|| message.key(true).map(Box::from))
    }
}
