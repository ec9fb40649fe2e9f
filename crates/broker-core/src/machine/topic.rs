//! A topic's message becomes one copy for each subscription that wants it (`service-bus-entities` 16).
//!
//! Invariant: what the copies of a message share is stored once, in the topic, as long as one of them is there. It
//! and all copies are recorded in one call.

use std::time::Duration;

use broker_filter::{PropertySet, SystemProperty, Value};
use bytes::Bytes;

use super::{
    Core,
    arrival::{Arrival, arrival, enter_session, more_of, shorter},
    copies::Copy,
    dead_letter::{HEADER_SIZE, HEADER_SIZE_TEXT, NO_SESSION_ID, with_reason},
    publish::Numbers,
    sessions::check_session_id,
    wake,
};
use crate::{
    Message, More, Output, Properties, PropertyValue, QueueId, SYSTEM, Timestamp,
    record::{BodyRef, MessageIndex, OWN_TTL, decode_properties, encode_properties},
    slot::{Slot, State},
    store::{Role, Store},
};

const FILTER_ERROR: &str = "FilterException";
const NO_SESSION_TEXT: &str = "A session-enabled entity does not take a message whose session id is null.";
const LONG_SESSION: &str = "SessionIdTooLong";
const LONG_SESSION_TEXT: &str = "The session id has more characters than a session may have.";
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

impl Core {
    /// Stores messages that were checked: subscriptions get copies.
    pub(super) fn store_at_topic(
        &mut self,
        now: Timestamp,
        topic: QueueId,
        messages: &[Message],
        mut numbers: Numbers<'_>,
        out: &mut impl Output,
    ) {
        let fair = self.fair_partition(topic);
        let mut left_no_trace = false;
        for message in messages {
            let partition = self.partition_of(topic, message, fair);
            let is_new = self.stores.get_mut(&topic).is_some_and(|store| {
                let is_new = store.is_first_copy(now, message);
                store.traffic.incoming += u64::from(is_new);
                is_new
            });
            if !is_new {
                numbers.tell(0);
                continue;
            }
            let arrival = Arrival { partition, ..arrival(now, message, more_of(message, false)) };
            let number = self.publish_to_topic(now, topic, message, arrival, out);
            if matches!(numbers, Numbers::Told(_)) && !self.has_slot(topic, number) {
                left_no_trace = true;
                self.pass_number(topic, number);
            }
            numbers.tell(number);
        }
        if left_no_trace {
            // A number is told once: who cancels a message that has come and gone must not meet another one.
            self.rewrite_definition(topic, out);
        }
        self.note_history(topic);
    }

    /// A message is published to a topic: now, or when it is due. Says its number.
    fn publish_to_topic(
        &mut self,
        now: Timestamp,
        topic: QueueId,
        message: &Message,
        arrival: Arrival,
        out: &mut impl Output,
    ) -> u64 {
        let rest = message.stored();
        if arrival.due.is_some() {
            let number = self.accept_numbered(now, topic, arrival, rest, out);
            self.rearm(topic);
            return number;
        }
        let incoming = self.incoming(now, message, arrival);
        self.fan_out(now, topic, incoming, out)
    }

    /// A message as rules see it when it arrives.
    pub(super) fn incoming<'a>(
        &self,
        now: Timestamp,
        message: &'a Message,
        arrival: Arrival,
    ) -> Incoming<'a> {
        let mut facts = match &message.properties {
            Some(properties) => PropertySet::clone(properties),
            None => (self.config.describe)(now, &message.payload).properties.map(|p| *p).unwrap_or_default(),
        };
        let rest = message.stored();
        if arrival.properties_length > 0 {
            let stored = rest.slice(..(arrival.properties_length as usize).min(rest.len()));
            overlay(&mut facts, &decode_properties(&stored).unwrap_or_default());
        }
        Incoming { arrival, facts, session: message.session_id.as_deref(), rest }
    }

    /// Gives a message to the subscriptions of a topic. Says its number; one that no rule lets in is gone, and leaves
    /// its number to the next, unless whoever told it to somebody keeps it.
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
        incoming.tell_broker_facts(now, number, cap);
        let mut room = self.room;
        let copies = self.copies_of(topic, number, &incoming, &mut room);
        self.room = room;
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
        let Copy { subscription, changed, failed } = copy;
        let own_ttl = changed.as_ref().map_or(incoming.arrival.time_to_live, |changed| changed.time_to_live);
        let is_too_large = changed.as_ref().is_some_and(|changed| changed.is_too_large);
        let session = match &changed {
            Some(changed) => changed.session.as_deref(),
            None => incoming.session,
        };
        let sequence = self.take_number(subscription, incoming.arrival.partition);
        let Some(entity) = self.stores.get(&subscription).and_then(|store| store.entity()) else {
            return;
        };
        let definition = &entity.definition;
        let needs_session = definition.settings.requires_session;
        let ttl = shorter(shorter(own_ttl, cap), definition.settings.default_time_to_live);
        let dead = match failed {
            Some(error) => Some((FILTER_ERROR, error)),
            None if is_too_large => Some((HEADER_SIZE, HEADER_SIZE_TEXT.into())),
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
            None => (subscription, session.filter(|_| needs_session)),
        };
        let more = more_of_copy(incoming.arrival.more.as_deref(), session);
        let mut encoded = changed.map_or_else(Bytes::new, |changed| changed.properties);
        if let Some((reason, text)) = dead {
            let properties = decode_properties(&encoded).unwrap_or_default();
            encoded = encode_properties(&with_reason(properties, reason, &text)).into();
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
            more,
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
        more: more_of_copy(incoming.arrival.more.as_deref(), None),
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
fn more_of_copy(brought: Option<&More>, session: Option<&str>) -> Option<Box<More>> {
    if brought.is_none() && session.is_none() {
        return None;
    }
    let brought = brought.cloned().unwrap_or_default();
    Some(Box::new(More { session: session.map(Box::from), ..brought }))
}

impl Incoming<'_> {
    /// Adds what only the broker knows. `cap` is the longest time to live that the topic allows.
    pub(super) fn tell_broker_facts(&mut self, now: Timestamp, number: u64, cap: Option<Duration>) {
        let millis = |at: Timestamp| Value::Timestamp(i64::try_from(at.as_millis()).unwrap_or(i64::MAX));
        let expires_at = shorter(self.arrival.time_to_live, cap).map(|ttl| now.after(ttl));
        let first = self.arrival.more.as_ref().and_then(|more| more.enqueued_sequence).unwrap_or(number);
        let bytes = self.rest.len() as u64 - u64::from(self.arrival.properties_length);
        let source = self.arrival.more.as_ref().and_then(|more| more.dead_letter_source.as_deref());
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
pub(super) fn lifetime(value: &Value) -> Option<Duration> {
    let Value::Duration(ticks) = value else { return None };
    Some(Duration::from_millis(u64::try_from(ticks / TICKS_PER_MILLI).unwrap_or(0)))
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
