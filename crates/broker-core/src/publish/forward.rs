//! Forwarding of messages and dead letters to another entity (`docs/features/forwarding.md`).
//!
//! Invariant: a message is at its source or at its target, never at both or neither: its removal and its arrival
//! belong to one call, and so to one batch of the journal. One call moves a bounded number of messages and bytes, each
//! by one hop, and no message is moved more than [`HOPS_MAX`] times.

use std::time::Duration;

use super::{
    partition_keys::BatchScope, publisher::Publisher, sequence_sink::SequenceSink, topic_message::lifetime,
};
use crate::{
    Forwarded, Message, Output, Properties, PropertyValue, PublishError, QueueId, QuotaError, SYSTEM,
    Timestamp,
    call::{Cx, cost},
    disk_waits::DiskWaiter,
    entity::status::Use,
    messages::Messages,
    record::{DURABLE, OpenRecord},
    settle::{
        dead_letter::{DeadLetters, HEADER_SIZE, HEADER_SIZE_TEXT, NO_SESSION_ID, REASON, with_reason},
        property_patch::PropertyPatch,
    },
    store::load_message::Unread,
};
use broker_filter::{SystemProperty, Value};

/// Most hops of a forwarded message.
const HOPS_MAX: u8 = 4;
/// Dead-letter reason of a message that goes in a circle.
const HOPS_EXCEEDED: &str = "MaxTransferHopCountExceeded";
/// When to try again what failed for lack of room in the broker itself, or at a target that remembers no more ids.
const RETRY: Duration = Duration::from_secs(1);

/// Result of forwarding one message.
enum Transfer {
    /// It is not here any more, or set aside.
    Done,
    /// The broker has no room: it waits, and so do all others if the disk is full.
    Later { all: bool },
    /// It is read from the disk, and its store waits for that.
    Reading,
}

/// Dead-letter reason and description of a message that cannot be forwarded.
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) description: String,
}

/// Sends messages on to the entity that theirs forwards to.
#[derive(Debug)]
pub(crate) struct Forwarder<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> Forwarder<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl Forwarder<'_> {
    /// Sends on what waits for it, until `left` is used up; says how much of that is left. What arrives meanwhile waits
    /// for the next call, which can read it.
    pub(crate) fn drain_forwards(&mut self, cx: &mut Cx<'_, impl Output>, mut left: u32) -> u32 {
        let mut waiting = self.messages.entities.agenda.take_to_forward(cx.now);
        while left > 0
            && self.messages.entities.agenda.may_forward(cx.now)
            && let Some(queue) = waiting.pop_front()
        {
            if let Some(store) = self.messages.store_mut(queue) {
                store.queued = false;
                left = self.forward_store(cx, queue, left);
            }
        }
        self.messages.entities.agenda.put_back_to_forward(waiting);
        left
    }

    fn forward_store(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, mut left: u32) -> u32 {
        // Forwarding is receiving: what may not be received stays until it may.
        if self.messages.entities.check_use(queue, Use::Receive).is_err() {
            return left;
        }
        if let Some(store) = self.messages.store_mut(queue) {
            store.reads.begin();
        }
        while let Some(store) = self.messages.entities.stores.get_mut(&queue)
            && store.forwards.is_some()
            && let Some(sequence) = store.next_ready()
            && let Some(slot) = store.slots.get(sequence).copied()
        {
            if slot.is_over(store.is_dead_letter(), cx.now) {
                store.take(sequence);
                continue;
            }
            // A message of this call cannot be read back before its batch is committed.
            if left == 0 || slot.position >= cx.out.readable() {
                self.messages.entities.agenda.wake(store);
                return left;
            }
            let spent = self.cost_of_transfer(queue, sequence, slot.length);
            match self.transfer(cx, queue, sequence) {
                Transfer::Done => left = left.saturating_sub(spent.saturating_add(cx.changes_cost())),
                // The end of the read wakes the store. Asking was work as well.
                Transfer::Reading => return left.saturating_sub(1),
                Transfer::Later { all: true } => {
                    self.messages.entities.agenda.delay_all_forwards(cx.now.after(RETRY));
                    if let Some(store) = self.messages.entities.stores.get_mut(&queue) {
                        self.messages.entities.agenda.wake(store);
                    }
                    return left;
                }
                Transfer::Later { all: false } => {
                    if let Some(store) = self.messages.entities.stores.get_mut(&queue) {
                        self.messages.entities.agenda.delay_forward(store, cx.now.after(RETRY));
                    }
                    // It was read, and described: that is work as well.
                    return left.saturating_sub(1);
                }
            }
        }
        // Forwarding was switched off: consumers may wait.
        if let Some(store) =
            self.messages.entities.stores.get_mut(&queue).filter(|store| store.forwards.is_none())
        {
            self.messages.entities.agenda.wake(store);
        }
        left
    }

    /// Cost of moving a message: a copy takes the body along that it shared, and a topic makes copies.
    fn cost_of_transfer(&self, queue: QueueId, sequence: u64, length: u32) -> u32 {
        let target = self
            .messages
            .store(queue)
            .and_then(|store| self.messages.entities.names.get(store.forwards.as_deref()?));
        let copies = target.map_or(0, |target| self.messages.rules.count(*target));
        let length = length.saturating_add(self.messages.entities.body_length(queue, sequence));
        cost(true, length).saturating_add(u32::try_from(copies).unwrap_or(u32::MAX))
    }

    fn transfer(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, sequence: u64) -> Transfer {
        let Some(store) = self.messages.store(queue) else { return Transfer::Done };
        let disk = store.reads.disk_access();
        let record = match self.messages.entities.read_message(queue, sequence, disk, cx.out) {
            Ok(record) => record,
            Err(Unread::Pending(read)) => {
                self.messages.disk_waits.add(read, DiskWaiter::Store(queue));
                return Transfer::Reading;
            }
            Err(Unread::Damaged(_)) => {
                if let Some(store) = self.messages.store_mut(queue) {
                    store.set_damaged(sequence);
                }
                return Transfer::Done;
            }
        };
        if let Some(store) = self.messages.store_mut(queue) {
            store.reads.found();
        }
        match self.forward_message(cx, queue, sequence, &record) {
            Ok(()) => self.messages.entities.discard(cx, queue, sequence),
            Err(None) => return Transfer::Later { all: cx.out.check_storage().is_err() },
            Err(Some(failure)) => self.dead_letter_failed_forward(cx, queue, sequence, record, &failure),
        }
        Transfer::Done
    }

    /// The message arrives at the target, as if it were sent now. `Err(None)`: not now.
    fn forward_message(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        record: &OpenRecord,
    ) -> Result<(), Option<Failure>> {
        let Some(store) = self.messages.store(queue) else { return Ok(()) };
        let Some(target) = &store.forwards else { return Ok(()) };
        let mut extras = record.index.extras.as_deref().cloned().unwrap_or_default();
        if extras.hops >= HOPS_MAX {
            return Err(Some(Failure::hops()));
        }
        extras.hops += 1;
        extras.enqueued_sequence.get_or_insert(record.enqueued_sequence().unwrap_or(sequence));
        if store.is_dead_letter() {
            extras.dead_letter_source =
                self.messages.main_of(queue).map(|entity| entity.definition.name.clone());
        }
        let Some(target) = self.messages.entities.names.get(&**target).copied() else {
            let error = PublishError::NotFound(Box::from(&**target));
            return Err(Failure::of(&error));
        };
        let own = self.messages.main_of(queue).map(|entity| entity.definition.stores.queue);
        if target == queue {
            return Err(Some(Failure::circle()));
        }
        let payload = record.clone().into_payload();
        let mut message = (self.messages.config.describe)(cx.now, &payload);
        if own == Some(target) {
            // The entity remembers the id of its own dead letter, which would be dropped as a duplicate.
            message.message_id = None;
        }
        message.durable = record.index.flags & DURABLE != 0;
        // Records that were read have been decoded before.
        message.take_changes(&record.properties().unwrap_or_default());
        let (properties_length, rest) = record.whole();
        if properties_length as usize > self.messages.config.max_properties_bytes {
            return Err(Some(Failure::properties()));
        }
        message.forwarded = Some(Box::new(Forwarded { extras, properties_length, rest }));
        let arrived = Publisher::of(self.messages).enqueue(
            cx,
            target,
            std::slice::from_ref(&message),
            BatchScope::Independent,
            SequenceSink::Discard,
        );
        arrived.map_err(|error| Failure::of(&error))
    }

    /// Dead-letters a message that cannot be forwarded; a dead letter goes to the transfer dead letters.
    fn dead_letter_failed_forward(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        record: OpenRecord,
        failure: &Failure,
    ) {
        let mut description = failure.description.clone();
        if let Some(former) = record.properties().ok().and_then(|properties| reason_of(&properties)) {
            description = format!("{description} It had been dead-lettered for: {former}");
        }
        let properties = with_reason(Properties::default(), failure.reason, &description);
        let patch = PropertyPatch { properties, record: Some(record) };
        if self.messages.store(queue).is_none_or(|store| !store.is_dead_letter()) {
            return DeadLetters::of(self.messages).dead_letter(cx, queue, sequence, patch);
        }
        if let Some(target) =
            self.messages.main_of(queue).map(|entity| entity.definition.stores.transfer_dead_letter)
        {
            DeadLetters::of(self.messages).move_to_store(cx, queue, sequence, target, patch);
        }
    }
}

impl Message {
    /// System properties that the action of a rule has set take effect at the target of forwarding
    /// (`docs/features/forwarding.md`).
    pub(crate) fn take_changes(&mut self, properties: &Properties) {
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

/// Reason for which the message was dead-lettered before.
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
        Self { reason: HOPS_EXCEEDED, description }
    }

    /// Of a message that its entity would forward to itself, again and again.
    fn circle() -> Self {
        let description = "The entity forwards its messages to itself.".to_owned();
        Self { reason: HOPS_EXCEEDED, description }
    }

    fn properties() -> Self {
        Self { reason: HEADER_SIZE, description: HEADER_SIZE_TEXT.into() }
    }

    /// `None`: the broker itself has no room, which is no fault of the target.
    pub(crate) fn of(error: &PublishError) -> Option<Self> {
        let reason = match error {
            // A forwarded message belongs to no transaction and asks for no kind of node.
            PublishError::QuotaExceeded(
                QuotaError::Namespace { .. } | QuotaError::Memory | QuotaError::Storage,
            )
            | PublishError::HistoryFull { .. }
            | PublishError::WrongKind { .. }
            | PublishError::Transaction(_) => return None,
            PublishError::NotFound(_) | PublishError::SubQueueSend(_) | PublishError::SubscriptionSend(_) => {
                "MessagingEntityNotFoundException"
            }
            PublishError::Disabled(_) => "MessagingEntityDisabledException",
            PublishError::QuotaExceeded(QuotaError::Entity { .. })
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
