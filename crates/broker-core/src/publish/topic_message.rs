//! A message at a topic, with the properties that the filters of its subscriptions see.
//!
//! Invariant: a filter sees what the payload says, with the properties that the broker stored beside it put over it.

use std::time::Duration;

use broker_filter::{PropertySet, SystemProperty, Value};

use super::store_message::{MessageAttributes, shorter};
use crate::{Properties, PropertyValue, SYSTEM, Timestamp};

/// Units of 100 nanoseconds in a millisecond.
const TICKS_PER_MILLI: i64 = 10_000;

/// A message that arrives at a topic.
pub(crate) struct TopicMessage<'a> {
    pub(crate) attributes: MessageAttributes,
    /// Properties that the rules read.
    pub(crate) facts: PropertySet,
    pub(crate) session: Option<&'a str>,
    /// Its properties, if any, and its payload.
    pub(crate) rest: &'a [u8],
}

impl TopicMessage<'_> {
    /// Adds what only the broker knows. `cap` is the longest time to live that the topic allows.
    pub(crate) fn set_broker_properties(&mut self, now: Timestamp, number: u64, cap: Option<Duration>) {
        let millis = |at: Timestamp| Value::Timestamp(i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
        let expires_at = shorter(self.attributes.time_to_live, cap).map(|ttl| now.after(ttl));
        let first =
            self.attributes.extras.as_ref().and_then(|extras| extras.enqueued_sequence).unwrap_or(number);
        let bytes = self.rest.len() as u64 - u64::from(self.attributes.properties_length);
        let source = self.attributes.extras.as_ref().and_then(|extras| extras.dead_letter_source.as_deref());
        let facts = &mut self.facts;
        facts.set_system(SystemProperty::EnqueuedTimeUtc, millis(now));
        facts.set_system(SystemProperty::SequenceNumber, Value::unsigned(number));
        facts.set_system(SystemProperty::EnqueuedSequenceNumber, Value::unsigned(first));
        facts.set_system(SystemProperty::ExpiresAtUtc, expires_at.map_or(Value::Null, millis));
        facts.set_system(SystemProperty::Size, Value::unsigned(bytes));
        facts.set_system(SystemProperty::DeliveryCount, Value::Int(0));
        facts.set_system(SystemProperty::State, Value::Int(0));
        facts.set_system(SystemProperty::DeadLetterSource, source.map_or(Value::Null, Value::from));
    }
}

/// A time to live as a rule gave it.
pub(crate) fn lifetime(value: &Value) -> Option<Duration> {
    let Value::Duration(ticks) = value else { return None };
    Some(Duration::from_millis(u64::try_from(ticks / TICKS_PER_MILLI).unwrap_or(0)))
}

/// Puts what the broker stored beside a message over what its payload says. A value that a client encoded is not
/// read here: rules see what the payload says.
pub(crate) fn overlay(facts: &mut PropertySet, properties: &Properties) {
    for (name, value) in &properties.0 {
        let value = match value {
            PropertyValue::Text(text) => Some(Value::Text(text.clone())),
            PropertyValue::Value(value) => Some(value.clone()),
            PropertyValue::Removed => None,
            PropertyValue::Encoded(_) => continue,
        };
        match (name.strip_prefix(SYSTEM), value) {
            (Some(system), value) => {
                if let Some(property) = SystemProperty::named(system) {
                    facts.set_system(property, value.unwrap_or(Value::Null));
                }
            }
            (None, Some(value)) => facts.set_user(name, value),
            (None, None) => drop(facts.remove_user(name)),
        }
    }
}
