//! What a message is stored as when it arrives: its number, its times, its record and its slot.
//!
//! Invariant: a message that is stored has a record and a slot that say the same, under a number that its entity gives
//! to no other.

use std::time::Duration;

use bytes::Bytes;

use super::Core;
use crate::{
    Message, More, Output, QueueId, Timestamp,
    partition::PartitionId,
    record::{DURABLE, MessageIndex, OWN_TTL},
    sessions::Sessions,
    slot::{ConsumerNumber, Slot, State},
    store::{Role, Store},
};

/// What decides about a message on its arrival.
pub(super) struct Arrival {
    pub(super) time_to_live: Option<Duration>,
    /// In the future, for a scheduled message.
    pub(super) due: Option<Timestamp>,
    /// The record's flags.
    pub(super) flags: u8,
    /// Length of the properties in front of the payload.
    pub(super) properties_length: u32,
    /// What only some messages have.
    pub(super) more: Option<Box<More>>,
    /// Where it belongs, in an entity with partitions.
    pub(super) partition: Option<PartitionId>,
}

/// What decides about a message that is published.
#[inline]
pub(super) fn arrival(now: Timestamp, message: &Message, more: Option<Box<More>>) -> Arrival {
    Arrival {
        time_to_live: message.time_to_live,
        due: message.scheduled_enqueue_time.filter(|due| *due > now),
        flags: if message.durable { DURABLE } else { 0 },
        properties_length: message.forwarded.as_ref().map_or(0, |from| from.properties_length),
        more,
        partition: None,
    }
}

impl Message {
    /// What is stored of it: its properties, if it brought any, and its payload.
    pub(super) fn stored(&self) -> &Bytes {
        self.forwarded.as_ref().map_or(&self.payload, |from| &from.rest)
    }
}

impl Core {
    /// Stores one message where it belongs. Says its number.
    pub(super) fn accept_numbered(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        arrival: Arrival,
        rest: &[u8],
        out: &mut impl Output,
    ) -> u64 {
        let next = self.next_number(queue, arrival.partition);
        let Some(store) = self.stores.get_mut(&queue) else { return 0 };
        if let Role::Main(entity) = &mut store.role {
            entity.definition.pass_number(next);
        }
        store_message(store, next, now, arrival, rest, out);
        next
    }
}

/// Stores one message under the next number of a store without partitions. `rest` is its properties, if any, and its
/// payload. Says the number.
#[inline]
pub(super) fn accept(
    store: &mut Store,
    now: Timestamp,
    arrival: Arrival,
    rest: &[u8],
    out: &mut impl Output,
) -> u64 {
    let Role::Main(entity) = &mut store.role else { return 0 };
    let sequence = entity.definition.next_sequence;
    entity.definition.next_sequence += 1;
    store_message(store, sequence, now, arrival, rest, out);
    sequence
}

/// Stores one message under this number.
#[inline]
pub(super) fn store_message(
    store: &mut Store,
    sequence: u64,
    now: Timestamp,
    arrival: Arrival,
    rest: &[u8],
    out: &mut impl Output,
) {
    let Role::Main(entity) = &store.role else { return };
    let definition = &entity.definition;
    let ttl = shorter(arrival.time_to_live, definition.settings.default_time_to_live);
    // A scheduled message begins to age when it is due (EXP-5, EXP-6).
    let expires_at = if arrival.due.is_some() { None } else { ttl.map(|ttl| now.after(ttl)) };
    let own = if arrival.time_to_live.is_some() { OWN_TTL } else { 0 };
    let session = store.sessions.as_mut().map(|sessions| enter_session(sessions, arrival.more.as_deref()));
    let index = MessageIndex {
        queue: store.id,
        sequence,
        enqueued_at: now,
        expires_at: expires_at.unwrap_or(Timestamp::MAX),
        delivery_count: 0,
        state: if arrival.due.is_some() { State::Scheduled } else { State::Active },
        flags: arrival.flags | own,
        properties_length: arrival.properties_length,
        due: arrival.due,
        own_ttl: arrival.due.and(arrival.time_to_live).map(millis),
        body: None,
        more: arrival.more,
    };
    let (position, length) = out.record(index.encode().as_slice(), &[rest]);
    let mut slot = Slot::new(position, length, now, index.expires_at);
    slot.state = index.state;
    slot.until = arrival.due.unwrap_or(Timestamp::MAX);
    slot.holder = session.unwrap_or(slot.holder);
    store.insert(sequence, slot);
}

/// The shorter of two lifetimes, of which each may be for ever.
pub(super) fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The number of the session that a message belongs to. Messages without one are refused before they come here.
pub(super) fn enter_session(sessions: &mut Sessions, more: Option<&More>) -> ConsumerNumber {
    let session = more.and_then(|more| more.session.as_deref());
    debug_assert!(session.is_some(), "checked on arrival");
    ConsumerNumber(sessions.enter(session.unwrap_or_default()).0)
}

/// What a message brings along from where it was forwarded, and its session where the entity has sessions: elsewhere
/// nothing may name one, for replay would make it.
pub(super) fn more_of(message: &Message, has_sessions: bool) -> Option<Box<More>> {
    let mut more = message.forwarded.as_ref().map(|from| Box::new(from.more.clone()));
    if has_sessions {
        more.get_or_insert_default().session.clone_from(&message.session_id);
    } else if let Some(more) = &mut more {
        more.session = None;
    }
    more
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
