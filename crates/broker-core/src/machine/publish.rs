//! Messages come in.
//!
//! Invariant: all messages of one command get consecutive numbers, or none is stored.

use std::time::Duration;

use super::{
    Core,
    partitions::{Together, check_partition_keys},
    sessions::{SESSION_ID_CHARS_MAX, check_session_id},
    status::Use,
    wake,
};
use crate::{
    ClientId, Effect, EntityKind, EntityPath, Message, More, Output, PublishError, QueueId, SequenceNumber,
    Ticket, Timestamp,
    merge::Answer,
    partition::PartitionId,
    record::{DURABLE, MessageIndex, OWN_TTL},
    sessions::Sessions,
    slot::{ConsumerNumber, Slot, State},
    store::{Entity, Role, Store},
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

/// Who hears the numbers of messages.
pub(super) enum Numbers<'a> {
    Untold,
    Told(&'a mut Vec<SequenceNumber>),
}

impl Numbers<'_> {
    fn tell(&mut self, number: u64) {
        if let Self::Told(numbers) = self {
            numbers.push(SequenceNumber(number));
        }
    }
}

impl Core {
    pub(super) fn publish(
        &mut self,
        now: Timestamp,
        client: ClientId,
        queue: QueueId,
        messages: &[Message],
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        match self.enqueue(now, queue, (messages, Together::of(messages)), Numbers::Untold, out) {
            Err(error) => self.refuse_publish(client, ticket, error, out),
            Ok(()) => {
                if let Some(ticket) = ticket {
                    self.merge.answer(client, Answer::Published, ticket, out);
                }
            }
        }
    }

    /// Stores messages, all or none, and tells the number of each; a dropped duplicate has none: zero.
    pub(super) fn enqueue(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        (messages, together): (&[Message], Together),
        numbers: Numbers<'_>,
        out: &mut impl Output,
    ) -> Result<(), PublishError> {
        let kind = self.check_publish(queue, messages, together, out)?;
        if kind == EntityKind::Topic {
            self.begin_room();
        }
        self.store_checked(now, (queue, kind), messages, numbers, out);
        Ok(())
    }

    /// Stores what was checked: at once, or when its transaction commits.
    pub(super) fn store_checked(
        &mut self,
        now: Timestamp,
        (queue, kind): (QueueId, EntityKind),
        messages: &[Message],
        mut numbers: Numbers<'_>,
        out: &mut impl Output,
    ) {
        self.touch(queue);
        if kind == EntityKind::Topic {
            return self.store_at_topic(now, queue, messages, numbers, out);
        }
        let Some(store) = self.stores.get_mut(&queue) else { return };
        if store.has_partitions {
            return self.store_in_partitions(now, queue, messages, numbers, out);
        }
        for message in messages {
            if !store.is_first_copy(now, message) {
                numbers.tell(0);
                continue;
            }
            store.traffic.incoming += 1;
            let more = more_of(message, store.sessions.is_some());
            numbers.tell(accept(store, now, arrival(now, message, more), message.stored(), out));
        }
        store.arm(&mut self.timers);
        wake(store, &mut self.active);
        self.note_history(queue);
    }

    /// The same for a topic, whose subscriptions get copies.
    fn store_at_topic(
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

    /// The same for a queue with partitions, where each message has to get its number first.
    fn store_in_partitions(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        messages: &[Message],
        mut numbers: Numbers<'_>,
        out: &mut impl Output,
    ) {
        let fair = self.fair_partition(queue);
        for message in messages {
            let partition = self.partition_of(queue, message, fair);
            let Some(store) = self.stores.get_mut(&queue) else { return };
            if !store.is_first_copy(now, message) {
                numbers.tell(0);
                continue;
            }
            store.traffic.incoming += 1;
            let more = more_of(message, store.sessions.is_some());
            let arrival = Arrival { partition, ..arrival(now, message, more) };
            numbers.tell(self.accept_numbered(now, queue, arrival, message.stored(), out));
        }
        if let Some(store) = self.stores.get_mut(&queue) {
            store.arm(&mut self.timers);
            wake(store, &mut self.active);
        }
        self.note_history(queue);
    }

    /// Stores messages whose numbers were told before. One whose time has come meanwhile arrives as if it were sent now.
    pub(super) fn store_scheduled(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        messages: &[Message],
        numbers: &[u64],
        out: &mut impl Output,
    ) {
        let Some(kind) = self.kind_of(queue) else { return };
        self.touch(queue);
        for (message, number) in messages.iter().zip(numbers) {
            if message.scheduled_enqueue_time.is_none_or(|due| due <= now) {
                self.store_checked(now, (queue, kind), std::slice::from_ref(message), Numbers::Untold, out);
                continue;
            }
            let Some(store) = self.stores.get_mut(&queue) else { return };
            if store.is_first_copy(now, message) {
                store.traffic.incoming += 1;
                let more = more_of(message, store.sessions.is_some());
                store_message(store, *number, now, arrival(now, message, more), message.stored(), out);
            }
        }
        self.rearm(queue);
        self.note_history(queue);
    }

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

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn publish_to(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        messages: &[Message],
        auto_create: bool,
        ticket: Option<Ticket>,
        out: &mut impl Output,
    ) {
        match self.resolve_or_create(now, path, auto_create, out) {
            Ok(queue) => self.publish(now, client, queue, messages, ticket, out),
            Err(_) => self.refuse_publish(client, ticket, PublishError::NotFound(path.entity.clone()), out),
        }
    }

    pub(super) fn refuse_publish(
        &mut self,
        client: ClientId,
        ticket: Option<Ticket>,
        error: PublishError,
        out: &mut impl Output,
    ) {
        if let Some(ticket) = ticket {
            self.merge.effect(client, Effect::PublishRefused { ticket, error }, out);
        }
    }

    /// What the stores of an entity hold together, in bytes.
    pub(super) fn entity_bytes(&self, queue: QueueId) -> u64 {
        let stores = self.main_of(queue).map(|entity| entity.definition.stores.all());
        let stores = stores.iter().flatten().filter_map(|id| self.stores.get(id));
        stores.map(|store| store.counts.bytes).sum()
    }

    pub(super) fn check_publish(
        &self,
        queue: QueueId,
        messages: &[Message],
        together: Together,
        out: &impl Output,
    ) -> Result<EntityKind, PublishError> {
        let missing = || PublishError::NotFound(format!("queue {}", queue.0).into());
        let store = self.stores.get(&queue).ok_or_else(missing)?;
        let Some(entity) = store.entity() else {
            let name = self.main_of(queue).ok_or_else(missing)?.definition.name.clone();
            return Err(PublishError::SubQueueSend(name));
        };
        let kind = entity.definition.kind;
        if kind == EntityKind::Subscription {
            return Err(PublishError::SubscriptionSend(entity.definition.name.clone()));
        }
        if !entity.definition.settings.status.allows(Use::Send) {
            return Err(PublishError::Disabled(entity.definition.name.clone()));
        }
        if store.sessions.is_some() {
            check_sessions(entity, messages)?;
        }
        check_partition_keys(store, entity, messages, together)?;
        self.check_room(queue, messages, out)?;
        if kind == EntityKind::Topic {
            self.check_copies(queue, entity, messages.len() as u64)?;
        }
        self.check_amount(queue, entity, messages, together)?;
        self.check_history(store, entity, messages)?;
        Ok(kind)
    }

    /// Refuses what is too large for an entity, or for which there is no room.
    pub(super) fn check_room(
        &self,
        queue: QueueId,
        messages: &[Message],
        out: &impl Output,
    ) -> Result<(), PublishError> {
        if out.storage_full() {
            return Err(PublishError::StorageFull);
        }
        let missing = || PublishError::NotFound(format!("queue {}", queue.0).into());
        let entity = self.stores.get(&queue).and_then(|store| store.entity()).ok_or_else(missing)?;
        let settings = &entity.definition.settings;
        let limit = self.max_message_bytes(settings);
        let largest = messages.iter().map(|message| message.payload.len() as u64).max().unwrap_or_default();
        if largest > limit {
            let entity = entity.definition.name.clone();
            return Err(PublishError::TooLarge { entity, bytes: largest, limit });
        }
        let Some(limit) = settings.max_size_bytes else { return Ok(()) };
        let bytes = self.entity_bytes(queue);
        let more: u64 = messages.iter().map(|message| message.payload.len() as u64).sum();
        if bytes.saturating_add(more) > limit {
            return Err(PublishError::EntityFull { entity: entity.definition.name.clone(), bytes, limit });
        }
        Ok(())
    }

    /// All copies of one send are made in one call: there may be so many.
    fn check_copies(&self, topic: QueueId, entity: &Entity, messages: u64) -> Result<(), PublishError> {
        let limit = self.config.max_copies_per_send;
        let copies = messages.saturating_mul(self.rules.count(topic) as u64);
        if copies > limit {
            let entity = entity.definition.name.clone();
            return Err(PublishError::TooManyCopies { entity, messages, copies, limit });
        }
        Ok(())
    }
}

/// Every message of an entity with sessions belongs to one.
fn check_sessions(entity: &Entity, messages: &[Message]) -> Result<(), PublishError> {
    for message in messages {
        let Some(session) = message.session_id.as_deref() else {
            return Err(PublishError::SessionRequired(entity.definition.name.clone()));
        };
        check_session_id(session).map_err(|chars| PublishError::SessionIdTooLong {
            chars: chars as u64,
            limit: SESSION_ID_CHARS_MAX as u64,
        })?;
    }
    Ok(())
}

/// What decides about a message that is published.
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
    pub(super) fn stored(&self) -> &[u8] {
        self.forwarded.as_ref().map_or(&self.payload, |from| &from.rest)
    }
}

/// Stores one message under the next number of a store without partitions. `rest` is its properties, if any, and its
/// payload. Says the number.
fn accept(store: &mut Store, now: Timestamp, arrival: Arrival, rest: &[u8], out: &mut impl Output) -> u64 {
    let Role::Main(entity) = &mut store.role else { return 0 };
    let sequence = entity.definition.next_sequence;
    entity.definition.next_sequence += 1;
    store_message(store, sequence, now, arrival, rest, out);
    sequence
}

#[inline]
fn store_message(
    store: &mut Store,
    sequence: u64,
    now: Timestamp,
    arrival: Arrival,
    rest: &[u8],
    out: &mut impl Output,
) {
    let Role::Main(entity) = &store.role else { return };
    let definition = &entity.definition;
    // The smaller of the two; a scheduled message begins to age when it is due (EXP-5, EXP-6).
    let ttl = match (arrival.time_to_live, definition.settings.default_time_to_live) {
        (Some(own), Some(default)) => Some(own.min(default)),
        (own, default) => own.or(default),
    };
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
