//! Fan-out: a topic's message becomes one copy for each subscription whose rules match (`docs/features/topics.md`).
//!
//! Invariant: what the copies of a message share is stored once, in the topic, as long as one of them is there. It
//! and all copies are recorded in one call.

use std::time::Duration;

use bytes::Bytes;

use super::{
    duplicates::is_first_copy,
    fan_out_plan::{CopyPlanner, PlannedCopy},
    sequence_sink::SequenceSink,
    store_message::{MessageAttributes, extras_of, session_of, shorter, store_message},
    topic_message::TopicMessage,
};
use crate::{
    Message, Output, QueueId, StoredExtras, Timestamp, Work,
    call::Cx,
    entity::partition_numbers::SequenceNumbers,
    messages::Messages,
    record::{BodyRef, decode_properties, encode_properties},
    settle::dead_letter::{HEADER_SIZE, HEADER_SIZE_TEXT, NO_SESSION_ID, with_reason},
    store::{Role, Store, append_message::append_message, session_id::check_session_id, slot::State},
};

const FILTER_ERROR: &str = "FilterException";
const NO_SESSION_TEXT: &str = "A session-enabled entity does not take a message whose session id is null.";
const LONG_SESSION: &str = "SessionIdTooLong";
const LONG_SESSION_TEXT: &str = "The session id has more characters than a session may have.";

/// Stores the messages of topics, and their copies.
#[derive(Debug)]
pub(crate) struct FanOut<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> FanOut<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl FanOut<'_> {
    /// Stores messages that were checked: subscriptions get copies.
    pub(crate) fn store_at_topic(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: QueueId,
        messages: &[Message],
        mut numbers: SequenceSink<'_>,
    ) {
        let fair = self.messages.entities.fair_partition(topic);
        let mut has_unrecorded_number = false;
        for message in messages {
            let partition = self.messages.entities.partition_of(topic, message, fair);
            let is_new = self.messages.store_mut(topic).is_some_and(|store| {
                let is_new = is_first_copy(store, cx.now, message);
                store.traffic.incoming += u64::from(is_new);
                is_new
            });
            if !is_new {
                numbers.push(0);
                continue;
            }
            let attributes = MessageAttributes {
                partition,
                ..MessageAttributes::of(cx.now, message, extras_of(message, false))
            };
            let number = self.publish_to_topic(cx, topic, message, attributes);
            if matches!(numbers, SequenceSink::Collect(_)) && !self.messages.entities.has_slot(topic, number)
            {
                has_unrecorded_number = true;
                SequenceNumbers::of(&mut self.messages.entities).pass(topic, number);
            }
            numbers.push(number);
        }
        if has_unrecorded_number {
            // Recorded at once, so that the number is never given out again: a client that cancels it later must not
            // hit another message.
            self.messages.entities.rewrite_definition(topic, cx.out);
        }
        self.messages.entities.note_history(cx, topic);
    }

    /// A message is published to a topic: now, or when it is due. Says its number.
    fn publish_to_topic(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: QueueId,
        message: &Message,
        attributes: MessageAttributes,
    ) -> u64 {
        let rest = message.stored();
        if attributes.due.is_some() {
            let number = self.accept_numbered(cx, topic, attributes, rest);
            self.messages.entities.rearm(topic);
            return number;
        }
        let incoming = CopyPlanner::of(self.messages).incoming(cx.now, message, attributes);
        self.fan_out(cx, topic, incoming)
    }

    /// Copies a message to the subscriptions of a topic. Returns its number. A message that no rule matches is dropped,
    /// and the next message gets its number, unless the caller has told the number to a client and takes it.
    pub(crate) fn fan_out(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: QueueId,
        mut incoming: TopicMessage<'_>,
    ) -> u64 {
        let number =
            SequenceNumbers::of(&mut self.messages.entities).next(topic, incoming.attributes.partition);
        let Some(entity) = self.messages.entity(topic) else {
            return 0;
        };
        let cap = entity.definition.settings.default_time_to_live;
        incoming.set_broker_properties(cx.now, number, cap);
        let mut room = cx.write_budget;
        let (copies, steps) = CopyPlanner::of(self.messages).copies_of(topic, number, &incoming, &mut room);
        cx.write_budget = room;
        // Expressions are evaluated one by one; rules of other kinds are found by an index.
        let compared = self.messages.rules.counted(topic).expressions + copies.len();
        cx.out.charge(Work::RULE.times(compared as u64) + Work::of_steps(steps));
        let references = u32::try_from(copies.len()).unwrap_or(u32::MAX);
        if let Some(store) = self.messages.store_mut(topic).filter(|_| references > 0)
            && let Some(body) = store_body(cx, store, number, &incoming, references)
        {
            for copy in copies {
                self.make_copy(cx, cap, &incoming, body, copy);
            }
        }
        number
    }

    /// Stores one copy in its subscription, or among the subscription's dead letters.
    fn make_copy(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        cap: Option<Duration>,
        incoming: &TopicMessage<'_>,
        body: BodyRef,
        copy: PlannedCopy,
    ) {
        let PlannedCopy { subscription, changed, failed } = copy;
        let own_ttl =
            changed.as_ref().map_or(incoming.attributes.time_to_live, |changed| changed.time_to_live);
        let is_too_large = changed.as_ref().is_some_and(|changed| changed.is_too_large);
        let session = match &changed {
            Some(changed) => changed.session.as_deref(),
            None => incoming.session,
        };
        let sequence = SequenceNumbers::of(&mut self.messages.entities)
            .take(subscription, incoming.attributes.partition);
        let Some(entity) = self.messages.entity(subscription) else {
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
        let extras = extras_of_copy(incoming.attributes.extras.as_deref(), session);
        let mut encoded = changed.map_or_else(Bytes::new, |changed| changed.properties);
        if let Some((reason, text)) = dead {
            let properties = decode_properties(&encoded).unwrap_or_default();
            encoded = encode_properties(&with_reason(properties, reason, &text)).into();
        }
        let expires_at = ttl.map_or(Timestamp::MAX, |ttl| cx.now.after(ttl));
        let attributes = MessageAttributes {
            time_to_live: own_ttl,
            due: None,
            flags: incoming.attributes.flags,
            properties_length: u32::try_from(encoded.len()).expect("properties are limited"),
            extras,
            partition: None,
        };
        let mut index = attributes.index(target, sequence, cx.now, expires_at);
        index.body = Some(body);
        let mut slot = append_message(&index, &[&encoded], cx.out);
        let Some(store) = self.messages.entities.stores.get_mut(&target) else { return };
        if let Some(sessions) = &mut store.sessions {
            slot.set_session(session_of(sessions, index.extras.as_deref()));
        }
        store.traffic.incoming += 1;
        store.insert_copy(sequence, slot, body);
        self.messages.entities.agenda.arm(store);
        self.messages.entities.agenda.wake(store);
    }
}

/// Stores what the copies share; says where.
fn store_body(
    cx: &mut Cx<'_, impl Output>,
    store: &mut Store,
    sequence: u64,
    incoming: &TopicMessage<'_>,
    references: u32,
) -> Option<BodyRef> {
    let Role::Main(entity) = &mut store.role else { return None };
    entity.definition.pass_number(sequence);
    let attributes = MessageAttributes {
        // It lives as long as a copy does.
        time_to_live: None,
        due: None,
        flags: incoming.attributes.flags,
        properties_length: incoming.attributes.properties_length,
        extras: extras_of_copy(incoming.attributes.extras.as_deref(), None),
        partition: None,
    };
    let mut index = attributes.index(store.id, sequence, cx.now, Timestamp::MAX);
    index.state = State::Body;
    let mut slot = append_message(&index, &[incoming.rest], cx.out);
    slot.set_references(references);
    store.insert(sequence, slot);
    store.traffic.outgoing += u64::from(references);
    Some(BodyRef { topic: store.id, sequence })
}

/// Stored extras of a copy in this session.
fn extras_of_copy(brought: Option<&StoredExtras>, session: Option<&str>) -> Option<Box<StoredExtras>> {
    if brought.is_none() && session.is_none() {
        return None;
    }
    let brought = brought.cloned().unwrap_or_default();
    Some(Box::new(StoredExtras { session: session.map(Box::from), ..brought }))
}

impl FanOut<'_> {
    /// Stores one message where it belongs. Says its number.
    pub(crate) fn accept_numbered(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        attributes: MessageAttributes,
        rest: &[u8],
    ) -> u64 {
        let next = SequenceNumbers::of(&mut self.messages.entities).next(queue, attributes.partition);
        let Some(store) = self.messages.store_mut(queue) else { return 0 };
        if let Role::Main(entity) = &mut store.role {
            entity.definition.pass_number(next);
        }
        store_message(cx, store, next, attributes, rest);
        next
    }
}
