//! Selection of the subscriptions that get a copy of a topic's message, and the bytes that a send takes with its
//! copies (`docs/features/topics.md`).
//!
//! Invariant: what the actions of one step write has at most [`CoreConfig::send_bytes_max`](crate::CoreConfig) bytes
//! together, in memory and in the journal; what is counted of a copy is never less than what is recorded of it.

use std::time::Duration;

use broker_filter::{Change, EvalError, NewId, PropertySet, SystemProperty, Value};
use bytes::Bytes;

use super::{
    store_message::MessageAttributes,
    topic_message::{TopicMessage, lifetime, overlay},
};
use crate::{
    LockId, Message, Properties, PropertyValue, QueueId, SYSTEM, SequenceNumber, Timestamp,
    call::WriteBudget,
    entity::rules::{RuleAnswer, RuleKey},
    messages::Messages,
    record::{decode_properties, encode_properties},
};

/// Characters of the text that says why a rule failed.
const FAILURE_CHARS_MAX: usize = 256;
/// Bytes of such a text.
pub(crate) const FAILURE_BYTES_MAX: u64 = 4 * FAILURE_CHARS_MAX as u64;
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
    /// matching rule with an action; or a single dead letter where a rule fails. What actions write takes of `room`. With them the steps that
    /// `LIKE` took.
    pub(crate) fn copies_of(
        self,
        topic: QueueId,
        number: u64,
        incoming: &TopicMessage<'_>,
        room: &mut WriteBudget,
    ) -> (Vec<PlannedCopy>, u64) {
        let mut asked = 0;
        // Random without the key, and the same in every run. No store has such a number.
        let mut new_id = || {
            asked += 1;
            self.messages.tokens.seal(QueueId(!topic.0), LockId(asked), SequenceNumber(number)).0
        };
        let (found, steps) = self.messages.rules.matching(topic, &incoming.facts, &mut new_id);
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
        (copies, steps)
    }

    /// The copies for one subscription.
    fn push_copies(
        self,
        rules: &[RuleAnswer],
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
    let rule = Properties(vec![(RULE_NAME.into(), PropertyValue::Text(rule.into()))].into());
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
