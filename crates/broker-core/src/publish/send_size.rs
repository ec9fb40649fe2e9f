//! Bytes that a send brings, with the copies that a topic makes of its messages.
//!
//! Invariant: the bytes counted of a copy are never less than the bytes recorded of it.

use super::{
    fan_out_plan::{CopyPlanner, FAILURE_BYTES_MAX, PlannedCopy},
    partition_keys::BatchScope,
    store_message::{MessageAttributes, extras_of},
};
use crate::{
    EntityKind, Message, PublishError, QueueId, Timestamp,
    call::WriteBudget,
    entity::rules::RuleCount,
    messages::Messages,
    store::{
        Entity,
        partition::PartitionId,
        session_id::{SESSION_ID_CHARS_MAX, check_session_id},
    },
};
use std::collections::BTreeMap;

/// Bytes of the record of one message or copy, without its texts, its payload and the properties that an action writes.
pub(crate) const COPY_BYTES: u64 = 128;
/// Bytes of the reason of a dead letter, without the error text of the rule.
const REASON_BYTES: u64 = 256;
/// Bytes of a session id that an action sets.
const SESSION_BYTES_MAX: u64 = 4 * SESSION_ID_CHARS_MAX as u64;

/// Counts the bytes that a send writes, and refuses what is too much for one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendSize<'a> {
    pub(crate) messages: &'a Messages,
}

impl<'a> SendSize<'a> {
    pub(crate) fn of(messages: &'a Messages) -> Self {
        Self { messages }
    }
}

impl SendSize<'_> {
    /// All that one send brings is written in one step.
    pub(crate) fn check_amount(
        self,
        now: Timestamp,
        queue: QueueId,
        entity: &Entity,
        messages: &[Message],
        scope: BatchScope,
    ) -> Result<(), PublishError> {
        let kind = entity.definition.kind;
        // A single message fits with any size. Those of a transaction are counted with the others that it sends.
        if (kind != EntityKind::Topic && messages.len() == 1) || scope == BatchScope::Transaction {
            return Ok(());
        }
        let limit = self.messages.config.send_bytes_max();
        if self.bytes_at_most(queue, kind, messages) <= limit
            || (kind == EntityKind::Topic && self.bytes_of(now, queue, messages, limit) <= limit)
        {
            return Ok(());
        }
        Err(self.too_much_at_once(entity, messages.len()))
    }

    /// The same for all that a transaction sends, to any entities: `sent` says where to, and what.
    pub(crate) fn check_amounts<'a>(
        self,
        now: Timestamp,
        sent: impl Iterator<Item = (QueueId, &'a [Message])> + Clone,
    ) -> Result<(), PublishError> {
        let limit = self.messages.config.send_bytes_max();
        let at_most = sent.clone().map(|(queue, messages)| {
            let kind = self.messages.entities.kind_of(queue).unwrap_or(EntityKind::Queue);
            self.bytes_at_most(queue, kind, messages)
        });
        if at_most.fold(0, u64::saturating_add) <= limit {
            return Ok(());
        }
        let mut bytes: u64 = 0;
        for (queue, messages) in sent {
            let Some(entity) = self.messages.entity(queue) else {
                continue;
            };
            let extras = match entity.definition.kind {
                EntityKind::Topic => self.bytes_of(now, queue, messages, limit),
                kind => self.bytes_at_most(queue, kind, messages),
            };
            bytes = bytes.saturating_add(extras);
            if bytes > limit {
                return Err(self.too_much_at_once(entity, messages.len()));
            }
        }
        Ok(())
    }

    fn too_much_at_once(self, entity: &Entity, messages: usize) -> PublishError {
        let (entity, limit) = (entity.definition.name.clone(), self.messages.config.send_bytes_max());
        PublishError::TooMuchAtOnce { entity, messages: messages as u64, limit }
    }

    /// As many bytes as messages bring to an entity, or more, found out without looking at what rules make of them.
    pub(crate) fn bytes_at_most(self, queue: QueueId, kind: EntityKind, messages: &[Message]) -> u64 {
        let rules =
            if kind == EntityKind::Topic { self.messages.rules.counted(queue) } else { RuleCount::default() };
        let of_action = self.messages.config.max_properties_bytes as u64 + SESSION_BYTES_MAX + REASON_BYTES;
        let wider = rules.expressions as u64 * (REASON_BYTES + FAILURE_BYTES_MAX)
            + (rules.actions as u64).saturating_mul(of_action.max(REASON_BYTES + FAILURE_BYTES_MAX));
        let one = |message: &Message| {
            let reason = if has_session(message) { 0 } else { REASON_BYTES };
            let copy = COPY_BYTES + texts(message) + reason;
            own(message).saturating_add(wider).saturating_add(copy.saturating_mul(rules.all as u64))
        };
        messages.iter().map(one).fold(0, u64::saturating_add)
    }

    /// Bytes that messages bring to a topic, computed by evaluating its rules; the count stops above `most`. Where a
    /// rule reads the number of a later message of a send, and an earlier one is dropped as a duplicate, the result may
    /// differ from the bytes that are written, so those are limited as well.
    pub(crate) fn bytes_of(self, now: Timestamp, topic: QueueId, messages: &[Message], most: u64) -> u64 {
        let mut bytes: u64 = 0;
        let mut taken: BTreeMap<Option<PartitionId>, u64> = BTreeMap::new();
        let fair = self.messages.entities.fair_partition(topic);
        for message in messages {
            let partition = self.messages.entities.partition_of(topic, message, fair);
            let taken = taken.entry(partition).or_default();
            let waits = message.scheduled_enqueue_time.is_some_and(|due| due > now);
            let copies =
                if waits { 0 } else { self.copies_bytes(now, topic, message, partition, *taken, most) };
            // A message that no subscription wants is not stored, and the next message gets its number.
            if waits || copies > 0 {
                *taken += 1;
                bytes = bytes.saturating_add(own(message)).saturating_add(copies);
            }
            if bytes > most {
                break;
            }
        }
        bytes
    }

    /// Bytes of the copies of one message, `behind` that many others of its partition.
    fn copies_bytes(
        self,
        now: Timestamp,
        topic: QueueId,
        message: &Message,
        partition: Option<PartitionId>,
        behind: u64,
        most: u64,
    ) -> u64 {
        let attributes = MessageAttributes::of(now, message, extras_of(message, false));
        let Some(entity) = self.messages.entity(topic) else {
            return 0;
        };
        let cap = entity.definition.settings.default_time_to_live;
        let number = entity.definition.next_number_in(partition) + behind;
        let mut incoming = CopyPlanner::of(self.messages).incoming(now, message, attributes);
        incoming.set_broker_properties(now, number, cap);
        let mut room = WriteBudget::of(most);
        let (copies, _) = CopyPlanner::of(self.messages).copies_of(topic, number, &incoming, &mut room);
        if room.was_short {
            return u64::MAX;
        }
        copies.iter().map(|copy| self.copy_bytes(copy, message)).sum()
    }

    fn copy_bytes(self, copy: &PlannedCopy, message: &Message) -> u64 {
        let needs_session =
            self.messages.entities.settings_of(copy.subscription).is_some_and(|it| it.requires_session);
        let may_lack_it = needs_session && (copy.changed.is_some() || !has_session(message));
        let (mut reason, mut bytes) = (may_lack_it || copy.failed.is_some(), COPY_BYTES + texts(message));
        if let Some(changed) = &copy.changed {
            reason |= changed.is_too_large;
            bytes +=
                changed.properties.len() as u64 + changed.session.as_ref().map_or(0, |id| id.len() as u64);
        }
        bytes += copy.failed.as_ref().map_or(0, |text| text.len() as u64);
        bytes + if reason { REASON_BYTES } else { 0 }
    }
}

/// Bytes of a message without its copies.
fn own(message: &Message) -> u64 {
    (message.stored().len() as u64).saturating_add(COPY_BYTES + texts(message))
}

/// A message belongs to a session, as far as it says.
fn has_session(message: &Message) -> bool {
    message.session_id.as_deref().is_some_and(|id| check_session_id(id).is_ok())
}

/// Texts of a message that every copy has as well.
fn texts(message: &Message) -> u64 {
    let source = message.forwarded.as_ref().and_then(|from| from.extras.dead_letter_source.as_deref());
    [message.session_id.as_deref(), source].into_iter().flatten().map(|text| text.len() as u64).sum()
}
