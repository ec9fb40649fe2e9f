//! A topic's message becomes one copy for each subscription that wants it (`service-bus-entities` 16).
//!
//! Invariant: what the copies of a message share is stored once, in the topic, as long as one of them is there. It
//! and all copies are recorded in one call.

use std::time::Duration;

use broker_filter::{Change, EvalError, NewId, PropertySet, SystemProperty, Value};

use super::{
    Core,
    dead_letter::{HEADER_SIZE, HEADER_SIZE_TEXT, NO_SESSION_ID, with_reason},
    publish::{Arrival, enter_session},
    sessions::check_session_id,
    wake,
};
use crate::{
    EntitySettings, LockId, Message, More, Output, Properties, PropertyValue, QueueId, SYSTEM,
    SequenceNumber, Timestamp,
    record::{BodyRef, MessageIndex, OWN_TTL, decode_properties, encode_properties},
    rules::RuleKey,
    slot::{Slot, State},
    store::{Role, Store},
};

const FILTER_ERROR: &str = "FilterException";
const NO_SESSION_TEXT: &str = "A session-enabled entity does not take a message whose session id is null.";
const LONG_SESSION: &str = "SessionIdTooLong";
const LONG_SESSION_TEXT: &str = "The session id has more characters than a session may have.";
/// Application property that names the rule whose action changed a copy.
const RULE_NAME: &str = "RuleName";
/// Units of 100 nanoseconds in a millisecond.
const TICKS_PER_MILLI: i64 = 10_000;

/// A message that arrives at a topic.
pub(super) struct Incoming<'a> {
    pub(super) arrival: Arrival,
    /// What rules see of it.
    pub(super) facts: PropertySet,
    pub(super) session: Option<&'a str>,
    /// Its properties, if any, and its payload.
    pub(super) rest: &'a [u8],
}

/// A copy to be made.
struct Copy {
    subscription: QueueId,
    /// The rule whose action changed it, and how.
    changed: Option<(RuleKey, Vec<Change>)>,
    /// A rule of the subscription failed, so it is dead on arrival.
    failed: Option<Box<str>>,
}

impl Core {
    /// A message is published to a topic: now, or when it is due. Says its number.
    pub(super) fn publish_to_topic(
        &mut self,
        now: Timestamp,
        topic: QueueId,
        message: &Message,
        arrival: Arrival,
        out: &mut impl Output,
    ) -> u64 {
        let rest = message.forwarded.as_ref().map_or(&message.payload, |from| &from.rest);
        if arrival.due.is_some() {
            let number = self.accept_numbered(now, topic, arrival, rest, out);
            self.rearm(topic);
            return number;
        }
        let mut facts = match &message.properties {
            Some(properties) => PropertySet::clone(properties),
            None => (self.config.describe)(now, &message.payload).properties.map(|p| *p).unwrap_or_default(),
        };
        if arrival.properties_length > 0 {
            let stored = rest.slice(..(arrival.properties_length as usize).min(rest.len()));
            overlay(&mut facts, &decode_properties(&stored).unwrap_or_default());
        }
        let session = message.session_id.as_deref();
        self.fan_out(now, topic, Incoming { arrival, facts, session, rest }, out)
    }

    /// Gives a message to the subscriptions of a topic. Says its number; one that no rule lets in is gone, and leaves
    /// its number to the next.
    pub(super) fn fan_out(
        &mut self,
        now: Timestamp,
        topic: QueueId,
        mut incoming: Incoming<'_>,
        out: &mut impl Output,
    ) -> u64 {
        let number = self.next_number(topic, incoming.arrival.partition);
        let Some(entity) = self.stores.get(&topic).and_then(|store| store.entity()) else { return 0 };
        let cap = entity.definition.settings.default_time_to_live;
        let expires_at = shorter(incoming.arrival.time_to_live, cap).map(|ttl| now.after(ttl));
        tell_broker_facts(&mut incoming, now, number, expires_at);
        let copies = self.copies_of(topic, number, &incoming.facts);
        let references = u32::try_from(copies.len()).unwrap_or(u32::MAX);
        if let Some(store) = self.stores.get_mut(&topic).filter(|_| references > 0)
            && let Some(body) = store_body(store, number, now, &incoming, references, out)
        {
            for copy in copies {
                self.make_copy(now, cap, &incoming, body, copy, out);
            }
        }
        number
    }

    /// Which copies a message has: for each subscription one that any rules without action let in, and one for each
    /// matching rule with an action; or a single dead letter where a rule fails.
    fn copies_of(&self, topic: QueueId, number: u64, facts: &PropertySet) -> Vec<Copy> {
        let mut asked = 0;
        // Random to all who do not know the key, and the same in every run. No store has such a number.
        let mut new_id = || {
            asked += 1;
            self.tokens.seal(QueueId(!topic.0), LockId(asked), SequenceNumber(number)).0
        };
        let found = self.rules.matching(topic, facts, &mut new_id);
        let mut copies = Vec::with_capacity(found.len());
        for rules in found.chunk_by(|(left, _), (right, _)| left.subscription == right.subscription) {
            let Some((RuleKey { subscription, .. }, _)) = rules.first() else { continue };
            let before = copies.len();
            if let Err(error) = self.push_copies(rules, facts, &mut new_id, &mut copies) {
                copies.truncate(before);
                if self
                    .settings_of(*subscription)
                    .is_some_and(|settings| settings.dead_letter_on_filter_error)
                {
                    let failed = Some(error.to_string().into());
                    copies.push(Copy { subscription: *subscription, changed: None, failed });
                }
            }
        }
        copies
    }

    /// The copies for one subscription.
    fn push_copies(
        &self,
        rules: &[(RuleKey, Result<(), EvalError>)],
        facts: &PropertySet,
        new_id: &mut NewId<'_>,
        copies: &mut Vec<Copy>,
    ) -> Result<(), EvalError> {
        let mut plain = false;
        for (key, result) in rules {
            result.clone()?;
            let subscription = key.subscription;
            let changed = match self.rules.get(*key).and_then(|rule| rule.action.as_ref()) {
                Some(action) => Some((*key, action.apply(&mut facts.clone(), new_id)?)),
                None if plain => continue,
                None => {
                    plain = true;
                    None
                }
            };
            copies.push(Copy { subscription, changed, failed: None });
        }
        Ok(())
    }

    fn settings_of(&self, main: QueueId) -> Option<&EntitySettings> {
        Some(&self.stores.get(&main)?.entity()?.definition.settings)
    }

    /// Stores one copy in its subscription, or among the subscription's dead letters.
    fn make_copy(
        &mut self,
        now: Timestamp,
        cap: Option<Duration>,
        incoming: &Incoming<'_>,
        body: BodyRef,
        copy: Copy,
        out: &mut impl Output,
    ) {
        let changes = copy.changed.as_ref().map_or(&[][..], |(_, changes)| changes);
        let own_ttl = changed_ttl(incoming.arrival.time_to_live, changes);
        let session = changed_session(incoming.session, changes);
        let rule = copy.changed.as_ref().and_then(|(key, _)| self.rules.get(*key));
        let mut properties = rule.map_or_else(Properties::default, |rule| as_properties(changes, &rule.name));
        let max_properties_bytes = self.config.max_properties_bytes;
        let sequence = self.take_number(copy.subscription, incoming.arrival.partition);
        let Some(entity) = self.stores.get(&copy.subscription).and_then(|store| store.entity()) else {
            return;
        };
        let definition = &entity.definition;
        let needs_session = definition.settings.requires_session;
        let ttl = shorter(shorter(own_ttl, cap), definition.settings.default_time_to_live);
        let mut encoded = encode_properties(&properties);
        let dead = match copy.failed {
            Some(error) => Some((FILTER_ERROR, error)),
            // It has those that the message brought, too.
            None if encoded.len() + incoming.arrival.properties_length as usize > max_properties_bytes => {
                properties = Properties::default();
                Some((HEADER_SIZE, HEADER_SIZE_TEXT.into()))
            }
            None if !needs_session => None,
            None => match session {
                None => Some((NO_SESSION_ID, NO_SESSION_TEXT.into())),
                Some(session) if check_session_id(session).is_err() => {
                    Some((LONG_SESSION, LONG_SESSION_TEXT.into()))
                }
                Some(_) => None,
            },
        };
        let (target, session) = match dead {
            Some(_) => (definition.stores.dead_letter, None),
            None => (copy.subscription, session.filter(|_| needs_session)),
        };
        if let Some((reason, text)) = dead {
            encoded = encode_properties(&with_reason(properties, reason, &text));
        }
        let own = if own_ttl.is_some() { OWN_TTL } else { 0 };
        let index = MessageIndex {
            queue: target,
            sequence,
            enqueued_at: now,
            expires_at: ttl.map_or(Timestamp::MAX, |ttl| now.after(ttl)),
            delivery_count: 0,
            state: State::Active,
            flags: incoming.arrival.flags | own,
            properties_length: u32::try_from(encoded.len()).expect("properties are limited"),
            due: None,
            own_ttl: None,
            body: Some(body),
            more: more_of(incoming.arrival.more.as_deref(), session),
        };
        let (position, length) = out.record(index.encode().as_slice(), &[&encoded]);
        let Some(store) = self.stores.get_mut(&target) else { return };
        let mut slot = Slot::new(position, length, now, index.expires_at);
        if let Some(sessions) = &mut store.sessions {
            slot.holder = enter_session(sessions, index.more.as_deref());
        }
        store.traffic.incoming += 1;
        store.insert_copy(sequence, slot, body);
        store.arm(&mut self.timers);
        wake(store, &mut self.active);
    }
}

/// Stores what the copies share; says where.
fn store_body(
    store: &mut Store,
    sequence: u64,
    now: Timestamp,
    incoming: &Incoming<'_>,
    references: u32,
    out: &mut impl Output,
) -> Option<BodyRef> {
    let Role::Main(entity) = &mut store.role else { return None };
    entity.definition.pass_number(sequence);
    let index = MessageIndex {
        queue: store.id,
        sequence,
        enqueued_at: now,
        // It lives as long as a copy does.
        expires_at: Timestamp::MAX,
        delivery_count: 0,
        state: State::Body,
        flags: incoming.arrival.flags,
        properties_length: incoming.arrival.properties_length,
        due: None,
        own_ttl: None,
        body: None,
        more: more_of(incoming.arrival.more.as_deref(), None),
    };
    let (position, length) = out.record(index.encode().as_slice(), &[incoming.rest]);
    let mut slot = Slot::new(position, length, now, Timestamp::MAX);
    slot.state = State::Body;
    slot.set_references(references);
    store.insert(sequence, slot);
    store.traffic.outgoing += u64::from(references);
    Some(BodyRef { topic: store.id, sequence })
}

/// What only some messages have, of a copy in this session.
fn more_of(brought: Option<&More>, session: Option<&str>) -> Option<Box<More>> {
    if brought.is_none() && session.is_none() {
        return None;
    }
    let brought = brought.cloned().unwrap_or_default();
    Some(Box::new(More { session: session.map(Box::from), ..brought }))
}

/// Adds what only the broker knows.
fn tell_broker_facts(
    incoming: &mut Incoming<'_>,
    now: Timestamp,
    number: u64,
    expires_at: Option<Timestamp>,
) {
    let millis = |at: Timestamp| Value::Timestamp(i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
    let first = incoming.arrival.more.as_ref().and_then(|more| more.enqueued_sequence).unwrap_or(number);
    let bytes = incoming.rest.len() as u64 - u64::from(incoming.arrival.properties_length);
    let source = incoming.arrival.more.as_ref().and_then(|more| more.dead_letter_source.as_deref());
    let facts = &mut incoming.facts;
    facts.set_system(SystemProperty::EnqueuedTimeUtc, millis(now));
    facts.set_system(SystemProperty::SequenceNumber, Value::unsigned(number));
    facts.set_system(SystemProperty::EnqueuedSequenceNumber, Value::unsigned(first));
    facts.set_system(SystemProperty::ExpiresAtUtc, expires_at.map_or(Value::Null, millis));
    facts.set_system(SystemProperty::Size, Value::unsigned(bytes));
    facts.set_system(SystemProperty::DeliveryCount, Value::Int(0));
    facts.set_system(SystemProperty::State, Value::Int(0));
    facts.set_system(SystemProperty::DeadLetterSource, source.map_or(Value::Null, Value::from));
}

/// The shorter of two lifetimes, of which each may be for ever.
fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
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

/// A time to live as a rule gave it.
pub(super) fn lifetime(value: &Value) -> Option<Duration> {
    let Value::Duration(ticks) = value else { return None };
    Some(Duration::from_millis(u64::try_from(ticks / TICKS_PER_MILLI).unwrap_or(0)))
}

/// A message's session after an action; the last word counts.
fn changed_session<'a>(own: Option<&'a str>, changes: &'a [Change]) -> Option<&'a str> {
    changes.iter().fold(own, |own, change| match change {
        Change::SetSystem(SystemProperty::SessionId, value) => value.as_text(),
        Change::RemoveSystem(SystemProperty::SessionId) => None,
        _ => own,
    })
}

/// What an action changed, as it is stored with the copy: the last word on each property.
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

/// Puts what the broker stored beside a message over what its payload says. A value that a client encoded is not
/// read here: rules see what the payload says.
pub(super) fn overlay(facts: &mut PropertySet, properties: &Properties) {
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
