//! Selection of the subscriptions that get a copy of a topic's message, and the bytes that a send takes with its
//! copies (`docs/features/topics.md`).
//!
//! Invariant: what the actions of one step write has at most [`CoreConfig::send_bytes_max`](crate::CoreConfig) bytes
//! together, in memory and in the journal; what is counted of a copy is never less than what is recorded of it.

use std::{collections::BTreeMap, time::Duration};

use broker_filter::{Change, EvalError, NewId, PropertySet, SystemProperty, Value};
use bytes::Bytes;

use super::{
    admission::PublishChecks,
    fan_out::overlay,
    fan_out::{TopicMessage, lifetime},
    messages::Messages,
    partitions::BatchScope,
    sessions::{SESSION_ID_CHARS_MAX, check_session_id},
    store_message::{MessageAttributes, extras_of},
};
use crate::{
    EntityKind, LockId, Message, Properties, PropertyValue, PublishError, QueueId, SYSTEM, SequenceNumber,
    Timestamp,
    call::WriteBudget,
    partition::PartitionId,
    record::decode_properties,
    record::encode_properties,
    rules::{RuleCount, RuleKey},
    store::Entity,
};

/// Bytes of the record of one message or copy, without its texts, its payload and the properties that an action writes.
pub(crate) const COPY_BYTES: u64 = 128;
/// Bytes of the reason of a dead letter, without the error text of the rule.
const REASON_BYTES: u64 = 256;
/// Characters of the text that says why a rule failed.
const FAILURE_CHARS_MAX: usize = 256;
/// Bytes of such a text.
const FAILURE_BYTES_MAX: u64 = 4 * FAILURE_CHARS_MAX as u64;
/// Bytes of a session id that an action sets.
const SESSION_BYTES_MAX: u64 = 4 * SESSION_ID_CHARS_MAX as u64;
/// Application property that names the rule whose action changed a copy.
const RULE_NAME: &str = "RuleName";

/// A copy to be made.
pub(crate) struct PlannedCopy {
    pub(crate) subscription: QueueId,
    pub(crate) changed: Option<Box<Changed>>,
    /// A rule of the subscription failed, so it is dead on arrival.
    pub(crate) failed: Option<Box<str>>,
}

/// A copy that an action changed.
pub(crate) struct Changed {
    /// The message's own time to live.
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) session: Option<Box<str>>,
    /// Properties stored beside the copy, encoded; empty where they are too large.
    pub(crate) properties: Bytes,
    /// More than a message may have, or more than there is room for in this step: it is dead on arrival.
    pub(crate) is_too_large: bool,
}

/// Decides which copies a topic's message has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyPlanner<'a> {
    pub(crate) messages: &'a Messages,
}

impl<'a> CopyPlanner<'a> {
    pub(crate) fn of(messages: &'a Messages) -> Self {
        Self { messages }
    }
}

impl CopyPlanner<'_> {
    /// Which copies a message has: for each subscription one that any rules without action let in, and one for each
    /// matching rule with an action; or a single dead letter where a rule fails. What actions write takes of `room`.
    pub(crate) fn copies_of(
        self,
        topic: QueueId,
        number: u64,
        incoming: &TopicMessage<'_>,
        room: &mut WriteBudget,
    ) -> Vec<PlannedCopy> {
        let mut asked = 0;
        // Random to all who do not know the key, and the same in every run. No store has such a number.
        let mut new_id = || {
            asked += 1;
            self.messages.tokens.seal(QueueId(!topic.0), LockId(asked), SequenceNumber(number)).0
        };
        let found = self.messages.rules.matching(topic, &incoming.facts, &mut new_id);
        let mut copies = Vec::with_capacity(found.len());
        for rules in found.chunk_by(|(left, _), (right, _)| left.subscription == right.subscription) {
            let Some((RuleKey { subscription, .. }, _)) = rules.first() else { continue };
            let (before, room_before) = (copies.len(), *room);
            if let Err(error) = self.push_copies(rules, incoming, &mut new_id, room, &mut copies) {
                copies.truncate(before);
                *room = room_before;
                if self
                    .messages
                    .entities
                    .settings_of(*subscription)
                    .is_some_and(|settings| settings.dead_letter_on_filter_error)
                {
                    let failed: String = error.to_string().chars().take(FAILURE_CHARS_MAX).collect();
                    let failed = Some(failed.into());
                    copies.push(PlannedCopy { subscription: *subscription, changed: None, failed });
                }
            }
        }
        copies
    }

    /// The copies for one subscription.
    fn push_copies(
        self,
        rules: &[(RuleKey, Result<(), EvalError>)],
        incoming: &TopicMessage<'_>,
        new_id: &mut NewId<'_>,
        room: &mut WriteBudget,
        copies: &mut Vec<PlannedCopy>,
    ) -> Result<(), EvalError> {
        let mut plain = false;
        for (key, result) in rules {
            result.clone()?;
            let rule = self.messages.rules.get(*key);
            let changed = match rule.and_then(|rule| Some((rule, rule.action.as_ref()?))) {
                Some((rule, action)) => {
                    let changes = action.apply(&mut incoming.facts.clone(), new_id)?;
                    Some(Box::new(self.changed(incoming, &changes, &rule.name, room)))
                }
                None if plain => continue,
                None => {
                    plain = true;
                    None
                }
            };
            copies.push(PlannedCopy { subscription: key.subscription, changed, failed: None });
        }
        Ok(())
    }

    /// Applies the action of a rule to a message.
    pub(crate) fn changed(
        self,
        incoming: &TopicMessage<'_>,
        changes: &[Change],
        rule: &str,
        room: &mut WriteBudget,
    ) -> Changed {
        let properties = encode_properties(&as_properties(changes, rule));
        // It has those that the message brought, too.
        let all = properties.len().saturating_add(incoming.attributes.properties_length as usize);
        let is_too_large =
            all > self.messages.config.max_properties_bytes || !room.take(properties.len() as u64);
        Changed {
            time_to_live: changed_ttl(incoming.attributes.time_to_live, changes),
            session: changed_session(incoming.session, changes).map(Box::from),
            properties: if is_too_large { Bytes::new() } else { properties.into() },
            is_too_large,
        }
    }
}

impl PublishChecks<'_> {
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
        // One message alone fits, whatever its size. Those of a transaction are counted with the others that it sends.
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

    /// As many bytes as messages bring to a topic, found out by trying its rules; more than `most` is all that is said of
    /// what is more. Where rules ask for the number of a message that is not the first of a send, and one before it is
    /// dropped as a duplicate, the result may differ from what is done in the end, which is why that is bounded as well.
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
        let copies = CopyPlanner::of(self.messages).copies_of(topic, number, &incoming, &mut room);
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

/// A message's lifetime after an action; the last word counts.
fn changed_ttl(own: Option<Duration>, changes: &[Change]) -> Option<Duration> {
    changes.iter().fold(own, |own, change| match change {
        Change::SetSystem(SystemProperty::TimeToLive, value @ Value::Duration(_)) => lifetime(value),
        Change::RemoveSystem(SystemProperty::TimeToLive) => None,
        _ => own,
    })
}

/// A message's session after an action; the last word counts.
fn changed_session<'a>(own: Option<&'a str>, changes: &'a [Change]) -> Option<&'a str> {
    changes.iter().fold(own, |own, change| match change {
        Change::SetSystem(SystemProperty::SessionId, value) => value.as_text(),
        Change::RemoveSystem(SystemProperty::SessionId) => None,
        _ => own,
    })
}

/// Changes of an action as properties that are stored with the copy: the last change of each property.
fn as_properties(changes: &[Change], rule: &str) -> Properties {
    let stored = |change: &Change| match change {
        Change::SetSystem(property, value) => {
            (format!("{SYSTEM}{property}").into(), PropertyValue::Value(value.clone()))
        }
        Change::RemoveSystem(property) => (format!("{SYSTEM}{property}").into(), PropertyValue::Removed),
        Change::SetUser { name, value } => (name.clone(), PropertyValue::Value(value.clone())),
        Change::RemoveUser { name } => (name.clone(), PropertyValue::Removed),
    };
    let own = Properties(changes.iter().map(stored).collect());
    let rule = Properties(vec![(RULE_NAME.into(), PropertyValue::Text(rule.into()))]);
    Properties::default().merge(own).merge(rule)
}

impl CopyPlanner<'_> {
    /// A message as rules see it when it arrives.
    pub(crate) fn incoming(
        self,
        now: Timestamp,
        message: &Message,
        attributes: MessageAttributes,
    ) -> TopicMessage<'_> {
        let mut facts = match &message.properties {
            Some(properties) => PropertySet::clone(properties),
            None => (self.messages.config.describe)(now, &message.payload)
                .properties
                .map(|p| *p)
                .unwrap_or_default(),
        };
        let rest = message.stored();
        if attributes.properties_length > 0 {
            let stored = rest.slice(..(attributes.properties_length as usize).min(rest.len()));
            overlay(&mut facts, &decode_properties(&stored).unwrap_or_default());
        }
        TopicMessage { attributes, facts, session: message.session_id.as_deref(), rest }
    }
}
