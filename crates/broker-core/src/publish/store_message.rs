//! Storing a message that arrives: its sequence number, its times, its record and its slot.
//!
//! Invariant: a message that is stored has a record and a slot that say the same, under a number that its entity gives
//! to no other.

use std::time::Duration;

use bytes::Bytes;

use crate::{
    Message, Output, QueueId, StoredExtras, Timestamp,
    call::Cx,
    record::{DURABLE, MessageIndex, OWN_TTL},
    store::{
        Role, Store,
        append_message::append_message,
        partition::PartitionId,
        sessions::{SessionNumber, Sessions},
        slot::State,
    },
};

/// Properties of an arriving message that decide how it is stored.
pub(crate) struct MessageAttributes {
    pub(crate) time_to_live: Option<Duration>,
    /// In the future, for a scheduled message.
    pub(crate) due: Option<Timestamp>,
    pub(crate) flags: u8,
    /// Length of the properties in front of the payload.
    pub(crate) properties_length: u32,
    /// Properties that few messages have.
    pub(crate) extras: Option<Box<StoredExtras>>,
    /// Its partition, in an entity with partitions.
    pub(crate) partition: Option<PartitionId>,
}

impl MessageAttributes {
    /// Those of a message that a client publishes or an entity forwards.
    #[inline]
    pub(crate) fn of(now: Timestamp, message: &Message, extras: Option<Box<StoredExtras>>) -> Self {
        Self {
            time_to_live: message.time_to_live,
            due: message.scheduled_enqueue_time.filter(|due| *due > now),
            flags: if message.durable { DURABLE } else { 0 },
            properties_length: message.forwarded.as_ref().map_or(0, |from| from.properties_length),
            extras,
            partition: None,
        }
    }

    /// The index of the message's record in a store.
    #[inline]
    pub(crate) fn index(
        self,
        queue: QueueId,
        sequence: u64,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> MessageIndex {
        let own = if self.time_to_live.is_some() { OWN_TTL } else { 0 };
        MessageIndex {
            state: if self.due.is_some() { State::Scheduled } else { State::Active },
            flags: self.flags | own,
            properties_length: self.properties_length,
            due: self.due,
            own_ttl: self.due.and(self.time_to_live).map(millis),
            extras: self.extras,
            ..MessageIndex::new(queue, sequence, now, expires_at)
        }
    }
}

impl Message {
    /// Stored bytes: the broker's properties that the message brought, if any, and its payload.
    pub(crate) fn stored(&self) -> &Bytes {
        self.forwarded.as_ref().map_or(&self.payload, |from| &from.rest)
    }
}

/// Stores one message under the next number of a store without partitions. `rest` is its properties, if any, and its
/// payload. Says the number.
#[inline]
pub(crate) fn accept(
    cx: &mut Cx<'_, impl Output>,
    store: &mut Store,
    attributes: MessageAttributes,
    rest: &[u8],
) -> u64 {
    let Role::Main(entity) = &mut store.role else { return 0 };
    let sequence = entity.definition.next_sequence;
    entity.definition.next_sequence += 1;
    store_message(cx, store, sequence, attributes, rest);
    sequence
}

/// Stores one message under this number.
#[inline]
pub(crate) fn store_message(
    cx: &mut Cx<'_, impl Output>,
    store: &mut Store,
    sequence: u64,
    attributes: MessageAttributes,
    rest: &[u8],
) {
    let Role::Main(entity) = &store.role else { return };
    let definition = &entity.definition;
    let ttl = shorter(attributes.time_to_live, definition.settings.default_time_to_live);
    // A scheduled message begins to age when it is due (EXP-5, EXP-6).
    let expires_at = if attributes.due.is_some() { None } else { ttl.map(|ttl| cx.now.after(ttl)) };
    let session = store.sessions.as_mut().map(|sessions| session_of(sessions, attributes.extras.as_deref()));
    let expires_at = expires_at.unwrap_or(Timestamp::MAX);
    let index = attributes.index(store.id, sequence, cx.now, expires_at);
    let mut slot = append_message(&index, &[rest], cx.out);
    if let Some(session) = session {
        slot.set_session(session);
    }
    store.insert(sequence, slot);
}

/// The shorter of two lifetimes, of which each may be for ever.
pub(crate) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The number of the session that a message belongs to. Messages without one are refused before they come here.
pub(crate) fn session_of(sessions: &mut Sessions, extras: Option<&StoredExtras>) -> SessionNumber {
    let session = extras.and_then(|extras| extras.session.as_deref());
    debug_assert!(session.is_some(), "checked on arrival");
    sessions.get_or_create(session.unwrap_or_default())
}

/// Stored extras of a message: those of the entity that forwarded it, and its session id where the entity has sessions.
/// Elsewhere the record must not name a session, because replay would create it.
pub(crate) fn extras_of(message: &Message, has_sessions: bool) -> Option<Box<StoredExtras>> {
    let mut extras = message.forwarded.as_ref().map(|from| Box::new(from.extras.clone()));
    if has_sessions {
        extras.get_or_insert_default().session.clone_from(&message.session_id);
    } else if let Some(extras) = &mut extras {
        extras.session = None;
    }
    extras
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
