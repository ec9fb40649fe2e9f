//! Messages that an entity sends on (`service-bus-entities` 13).
//!
//! Invariant: a message is at its source or at its target, never at both or neither: its removal and its arrival
//! belong to one call, and so to one batch of the journal. One call moves a bounded number of messages and bytes, each
//! by one hop, and no message is moved more than [`HOPS_MAX`] times.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use super::{
    Core,
    dead_letter::{HEADER_SIZE, HEADER_SIZE_TEXT, NO_SESSION_ID, REASON, with_reason},
    deadline::cost,
    partitions::Together,
    publish::Numbers,
    settle::Addition,
    status::Use,
    topic::lifetime,
    wake,
};
use broker_filter::{SystemProperty, Value};

use crate::{
    ClientId, Effect, EntityError, EntityKind, EntitySettings, Forwarded, LinkId, Message, NoRoom, Output,
    Properties, PropertyValue, PublishError, QueueId, SYSTEM, Timestamp,
    client::Link,
    name,
    record::{DURABLE, OpenRecord},
};

/// How often a message is sent on.
const HOPS_MAX: u8 = 4;
/// When to try again what failed for lack of room in the broker itself, or at a target that remembers no more ids.
const RETRY: Duration = Duration::from_secs(1);

/// Stores that may have something to do.
#[derive(Debug, Default)]
pub(super) struct Awake {
    /// For their consumers.
    pub(super) hand_out: VecDeque<QueueId>,
    /// For the entity that they forward to.
    pub(super) forward: VecDeque<QueueId>,
    /// Not before: the disk, which all of them need, was full.
    pub(super) forward_at: Timestamp,
    /// Stores whose target had no room: each waits for its own time, and holds up no other.
    resting: BTreeSet<(Timestamp, QueueId)>,
}

/// What became of a message that was to be forwarded.
enum Transfer {
    /// It is not here any more, or set aside.
    Done,
    /// The broker has no room: it waits, and so do all others if the disk is full.
    Later { all: bool },
}

/// Why a message cannot be forwarded, as its dead-letter reason and description say.
pub(super) struct Failure {
    pub(super) reason: &'static str,
    pub(super) description: String,
}

impl Awake {
    /// When messages are to be forwarded.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let rested = self.resting.first().map(|(at, _)| *at);
        let waiting = (!self.forward.is_empty()).then_some(self.forward_at);
        waiting.into_iter().chain(rested).min()
    }

    /// Stores that have rested are in turn again.
    fn wake_rested(&mut self, now: Timestamp) {
        while let Some((_, queue)) = self.resting.first().copied().filter(|(at, _)| *at <= now) {
            self.resting.pop_first();
            self.forward.push_back(queue);
        }
    }
}

impl Core {
    /// Sends on what waits for it, until `left` is used up; says how much of that is left. What arrives meanwhile waits
    /// for the next call, which can read it.
    pub(super) fn work_off_forwards(&mut self, now: Timestamp, mut left: u32, out: &mut impl Output) -> u32 {
        self.active.wake_rested(now);
        if self.active.forward.is_empty() || now < self.active.forward_at {
            return left;
        }
        let mut waiting = std::mem::take(&mut self.active.forward);
        while left > 0
            && now >= self.active.forward_at
            && let Some(queue) = waiting.pop_front()
        {
            if let Some(store) = self.stores.get_mut(&queue) {
                store.queued = false;
                left = self.forward_store(now, queue, left, out);
            }
        }
        waiting.append(&mut self.active.forward);
        self.active.forward = waiting;
        left
    }

    fn forward_store(&mut self, now: Timestamp, queue: QueueId, mut left: u32, out: &mut impl Output) -> u32 {
        // Forwarding is receiving: what may not be received stays until it may.
        if self.check_use(queue, Use::Receive).is_err() {
            return left;
        }
        while let Some(store) = self.stores.get_mut(&queue)
            && store.forwards.is_some()
            && let Some(sequence) = store.next_ready()
            && let Some(slot) = store.slots.get(sequence).copied()
        {
            if Self::is_over(&slot, store.is_dead_letter(), now) {
                store.take(sequence);
                continue;
            }
            if left == 0 || slot.position >= out.readable() {
                wake(store, &mut self.active);
                return left;
            }
            let spent = self.cost_of_transfer(queue, sequence, slot.length);
            match self.transfer(now, queue, sequence, out) {
                Transfer::Done => left = left.saturating_sub(spent.saturating_add(self.changes_cost())),
                Transfer::Later { all: true } => {
                    self.active.forward_at = now.after(RETRY);
                    if let Some(store) = self.stores.get_mut(&queue) {
                        wake(store, &mut self.active);
                    }
                    return left;
                }
                Transfer::Later { all: false } => {
                    if let Some(store) = self.stores.get_mut(&queue) {
                        // It is in the list, only not in turn.
                        store.queued = true;
                        self.active.resting.insert((now.after(RETRY), queue));
                    }
                    // It was read, and described: that is work as well.
                    return left.saturating_sub(1);
                }
            }
        }
        // It may have consumers now.
        if let Some(store) = self.stores.get_mut(&queue).filter(|store| store.forwards.is_none()) {
            wake(store, &mut self.active);
        }
        left
    }

    /// What moving a message counts: a copy takes the body along that it shared, and a topic gives out copies.
    fn cost_of_transfer(&self, queue: QueueId, sequence: u64, length: u32) -> u32 {
        let target = self.stores.get(&queue).and_then(|store| self.names.get(store.forwards.as_deref()?));
        let copies = target.map_or(0, |target| self.rules.count(*target));
        let length = length.saturating_add(self.body_length(queue, sequence));
        cost(true, length).saturating_add(u32::try_from(copies).unwrap_or(u32::MAX))
    }

    fn transfer(&mut self, now: Timestamp, queue: QueueId, sequence: u64, out: &mut impl Output) -> Transfer {
        let Ok(record) = self.read_message(queue, sequence, out) else {
            if let Some(store) = self.stores.get_mut(&queue) {
                store.set_damaged(sequence);
            }
            return Transfer::Done;
        };
        match self.send_on(now, queue, sequence, &record, out) {
            Ok(()) => self.discard(queue, sequence, out),
            Err(None) => return Transfer::Later { all: out.storage_full() },
            Err(Some(failure)) => self.keep_back(queue, sequence, record, &failure, out),
        }
        Transfer::Done
    }

    /// The message arrives at the target, as if it were sent now. `Err(None)`: not now.
    fn send_on(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequence: u64,
        record: &OpenRecord,
        out: &mut impl Output,
    ) -> Result<(), Option<Failure>> {
        let Some(store) = self.stores.get(&queue) else { return Ok(()) };
        let Some(target) = &store.forwards else { return Ok(()) };
        let mut more = record.index.more.as_deref().cloned().unwrap_or_default();
        if more.hops >= HOPS_MAX {
            return Err(Some(Failure::hops()));
        }
        more.hops += 1;
        more.enqueued_sequence.get_or_insert(record.enqueued_sequence().unwrap_or(sequence));
        if store.is_dead_letter() {
            more.dead_letter_source = self.main_of(queue).map(|entity| entity.definition.name.clone());
        }
        let Some(target) = self.names.get(&**target).copied() else {
            let error = PublishError::NotFound(Box::from(&**target));
            return Err(Failure::of(&error));
        };
        let payload = record.clone().into_payload();
        let mut message = (self.config.describe)(now, &payload);
        message.durable = record.index.flags & DURABLE != 0;
        // Records that were read have been decoded before.
        message.take_changes(&record.properties().unwrap_or_default());
        let (properties_length, rest) = record.whole();
        if properties_length as usize > self.config.max_properties_bytes {
            return Err(Some(Failure::properties()));
        }
        message.forwarded = Some(Box::new(Forwarded { more, properties_length, rest }));
        let arrived =
            self.enqueue(now, target, (std::slice::from_ref(&message), Together::Not), Numbers::Untold, out);
        arrived.map_err(|error| Failure::of(&error))
    }

    /// A message that cannot be sent on is dead-lettered; a dead letter goes to the transfer dead letters.
    fn keep_back(
        &mut self,
        queue: QueueId,
        sequence: u64,
        record: OpenRecord,
        failure: &Failure,
        out: &mut impl Output,
    ) {
        let mut description = failure.description.clone();
        if let Some(former) = record.properties().ok().and_then(|properties| reason_of(&properties)) {
            description = format!("{description} It had been dead-lettered for: {former}");
        }
        let properties = with_reason(Properties::default(), failure.reason, &description);
        let addition = Addition { properties, record: Some(record) };
        if self.stores.get(&queue).is_none_or(|store| !store.is_dead_letter()) {
            return self.dead_letter(queue, sequence, addition, out);
        }
        if let Some(target) = self.main_of(queue).map(|entity| entity.definition.stores.transfer_dead_letter)
        {
            self.set_aside(queue, sequence, target, addition, out);
        }
    }

    /// The properties of an entity have changed. Whoever receives from a store that forwards now is told so, and what
    /// waits there is sent on.
    pub(super) fn start_forwarding(&mut self, now: Timestamp, queue: QueueId, out: &mut impl Output) {
        let Some(entity) = self.main_of(queue) else { return };
        for id in entity.definition.stores.all() {
            let Some(store) = self.stores.get_mut(&id).filter(|store| store.forwards.is_some()) else {
                continue;
            };
            let links: Vec<_> = store.links.iter().copied().collect();
            wake(store, &mut self.active);
            for (client, link) in links {
                if self.is_consumer(client, link) {
                    self.close_link(now, client, link, out);
                    self.merge.effect(client, Effect::EntityForwards { link }, out);
                }
            }
        }
    }

    fn is_consumer(&self, client: ClientId, link: LinkId) -> bool {
        let link = self.clients.get(&client).and_then(|client| client.links.get(&link));
        matches!(link, Some(Link::Consumer { .. }))
    }

    /// Refuses to forward where that is not possible. What forwards is never idle.
    pub(super) fn check_forwards(
        &self,
        own_name: &str,
        kind: EntityKind,
        settings: &mut EntitySettings,
    ) -> Result<(), EntityError> {
        let targets = [
            ("ForwardTo", &settings.forward_to),
            ("ForwardDeadLetteredMessagesTo", &settings.forward_dead_lettered_to),
        ];
        for (property, target) in targets {
            let Some(target) = target else { continue };
            let refuse = |why| Err(EntityError::ForwardTarget { property, target: target.clone(), why });
            let key = name::key(target);
            if kind == EntityKind::Topic {
                return refuse("only queues and subscriptions forward");
            }
            if key == name::key(own_name) {
                return refuse("an entity cannot forward to itself");
            }
            match self.names.get(&key).and_then(|id| self.main_of(*id)).map(|entity| entity.definition.kind) {
                None => {
                    return Err(EntityError::ForwardTargetMissing { property, target: target.clone() });
                }
                Some(EntityKind::Subscription) => {
                    return refuse("a subscription takes messages from its topic only");
                }
                Some(EntityKind::Queue | EntityKind::Topic) => {}
            }
            if property == "ForwardTo" && settings.requires_session {
                return refuse("an entity with sessions cannot forward");
            }
        }
        if settings.forward_to.is_some() {
            settings.auto_delete_on_idle = None;
        }
        Ok(())
    }
}

impl Message {
    /// What rules have changed of a message counts where it arrives (`service-bus-entities` 16.4).
    pub(super) fn take_changes(&mut self, properties: &Properties) {
        for (name, value) in &properties.0 {
            let property = name.strip_prefix(SYSTEM).and_then(SystemProperty::named);
            let (Some(property), PropertyValue::Value(_) | PropertyValue::Removed) = (property, value) else {
                continue;
            };
            let value = if let PropertyValue::Value(value) = value { value } else { &Value::Null };
            let text = || value.as_text().map(Box::from);
            match property {
                SystemProperty::SessionId => self.session_id = text(),
                SystemProperty::MessageId => self.message_id = text(),
                SystemProperty::PartitionKey => self.partition_key = text(),
                SystemProperty::TimeToLive => self.time_to_live = lifetime(value),
                SystemProperty::ScheduledEnqueueTimeUtc => self.scheduled_enqueue_time = instant(value),
                _ => {}
            }
        }
    }
}

fn instant(value: &Value) -> Option<Timestamp> {
    let Value::Timestamp(millis) = value else { return None };
    Some(Timestamp::from_millis(u64::try_from(*millis).unwrap_or(0)))
}

/// Why a message was dead-lettered before.
fn reason_of(properties: &Properties) -> Option<Box<str>> {
    properties.0.iter().find_map(|(key, value)| match value {
        PropertyValue::Text(text) if &**key == REASON => Some(text.clone()),
        _ => None,
    })
}

impl Failure {
    fn hops() -> Self {
        let description =
            format!("The message was forwarded {HOPS_MAX} times, which is the most that is allowed.");
        Self { reason: "MaxTransferHopCountExceeded", description }
    }

    fn properties() -> Self {
        Self { reason: HEADER_SIZE, description: HEADER_SIZE_TEXT.into() }
    }

    /// `None`: the broker itself has no room, which is no fault of the target.
    pub(super) fn of(error: &PublishError) -> Option<Self> {
        let reason = match error {
            // What is forwarded belongs to no transaction, and asks for no kind of node.
            PublishError::NoRoom(NoRoom::Storage)
            | PublishError::HistoryFull { .. }
            | PublishError::WrongKind { .. }
            | PublishError::Transaction(_) => return None,
            PublishError::NotFound(_) | PublishError::SubQueueSend(_) | PublishError::SubscriptionSend(_) => {
                "MessagingEntityNotFoundException"
            }
            PublishError::Disabled(_) => "MessagingEntityDisabledException",
            PublishError::NoRoom(NoRoom::Entity { .. })
            | PublishError::TooManyCopies { .. }
            | PublishError::TooMuchAtOnce { .. } => "QuotaExceededException",
            PublishError::TooLarge { .. } => "MessageSizeExceededException",
            PublishError::SessionRequired(_) => NO_SESSION_ID,
            PublishError::PartitionKey(_) => "InvalidOperationException",
            PublishError::SessionIdTooLong { .. } => "ArgumentOutOfRangeException",
        };
        Some(Self { reason, description: format!("The message could not be forwarded: {error}.") })
    }
}
