//! Messages move to the dead-letter store, expire, and get new properties.
//!
//! Invariant: a message is in its queue or in the dead-letter store, never in both or neither: both records belong
//! to the same call.

use super::property_patch::PropertyPatch;
use crate::{
    Output, Properties, PropertyValue, QueueId,
    call::Cx,
    messages::Messages,
    record::{MessageIndex, OpenRecord, encode_properties},
    store::{append_message::append_message, load_message::DiskAccess, slot::Slot},
};

pub(crate) const REASON: &str = "DeadLetterReason";
/// Dead-letter reason of a message without a session that was forwarded to an entity with sessions.
pub(crate) const NO_SESSION_ID: &str = "Session id is null.";
const DESCRIPTION: &str = "DeadLetterErrorDescription";
/// Longest dead-letter reason and description, in characters (`docs/features/queues.md`, "Dead letters").
const REASON_CHARS_MAX: usize = 4096;

/// Moves messages among dead letters, and writes messages anew with more properties.
#[derive(Debug)]
pub(crate) struct DeadLetters<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> DeadLetters<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl DeadLetters<'_> {
    /// The message has failed as often as it may.
    pub(crate) fn dead_letter_delivered(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        limit: u32,
        mut patch: PropertyPatch,
    ) {
        let text = format!("Message could not be consumed after {limit} delivery attempts.");
        patch.properties = with_reason(patch.properties, "MaxDeliveryCountExceeded", &text);
        self.dead_letter(cx, queue, sequence, patch);
    }

    /// The message's time is over: away with it, or to the dead-letter store.
    pub(crate) fn expire(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        mut patch: PropertyPatch,
    ) {
        if let Some(store) = self.messages.store_mut(queue) {
            store.traffic.expired += 1;
        }
        if self.messages.entities.keeps_expired(queue) {
            let text = "The message expired and was dead lettered.";
            patch.properties = with_reason(patch.properties, "TTLExpiredException", text);
            self.dead_letter(cx, queue, sequence, patch);
        } else {
            self.messages.entities.discard(cx, queue, sequence);
        }
    }

    /// Moves a message with its number, enqueued time and count. One that cannot be read stays, hidden.
    pub(crate) fn dead_letter(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        patch: PropertyPatch,
    ) {
        if let Some(target) = self.messages.main_of(queue).map(|entity| entity.definition.stores.dead_letter)
        {
            self.move_to_store(cx, queue, sequence, target, patch);
        }
    }

    /// Moves a message to another store of its entity.
    pub(crate) fn move_to_store(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        target: QueueId,
        patch: PropertyPatch,
    ) {
        let Some(slot) = self.messages.store(queue).and_then(|store| store.slots.get(sequence)).copied()
        else {
            return;
        };
        let entities = &self.messages.entities;
        let read = patch
            .record
            .map_or_else(|| entities.read_message(queue, sequence, DiskAccess::Wait, cx.out).ok(), Some);
        let opened = read.and_then(|record| Some((record.properties().ok()?, record)));
        let Some((stored, record)) = opened else {
            if let Some(store) = self.messages.store_mut(queue) {
                store.set_damaged(sequence);
            }
            return;
        };
        let merged = self.bounded(stored, patch.properties);
        let body = record.index.body;
        if let Some(body) = body {
            // The dead letter refers to it before the copy does no more.
            self.messages.entities.add_reference(body);
        }
        self.messages.entities.discard(cx, queue, sequence);
        let index = record.index.dead_letter(target, slot.delivery_count);
        let moved = append(index, &merged, &record, cx.out);
        let Some(store) = self.messages.entities.stores.get_mut(&target) else { return };
        store.traffic.incoming += 1;
        match body {
            Some(body) => store.insert_copy(sequence, moved, body),
            None => store.insert(sequence, moved),
        }
        self.messages.entities.agenda.wake(store);
    }

    /// Appends a message anew with more properties. Where they grow too large it is dead-lettered instead, or, in
    /// a dead-letter store, keeps what it had.
    pub(crate) fn rewrite(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        properties: Properties,
        record: &OpenRecord,
    ) {
        let Ok(stored) = record.properties() else { return };
        let mut merged = stored.clone().merge(properties);
        if encode_properties(&merged).len() > self.messages.config.max_properties_bytes {
            if self.messages.store(queue).is_some_and(|store| !store.is_dead_letter()) {
                let properties = with_reason(Properties::default(), HEADER_SIZE, HEADER_SIZE_TEXT);
                let patch = PropertyPatch { properties, record: Some(record.clone()) };
                return self.dead_letter(cx, queue, sequence, patch);
            }
            merged = stored;
        }
        let Some(store) = self.messages.store_mut(queue) else { return };
        let Some(slot) = store.slots.get(sequence).copied() else { return };
        let written = append(record.index.updated(&slot), &merged, record, cx.out);
        cx.out.release(slot.position, slot.length);
        store.set_position(sequence, written.position, written.length);
    }

    /// Properties of a dead letter. Where all of them are too large, only the reason is kept, if that is not too large
    /// either.
    pub(crate) fn bounded(&self, stored: Properties, mut more: Properties) -> Properties {
        for (key, value) in more.0.iter_mut() {
            if let PropertyValue::Text(text) = value
                && matches!(&**key, REASON | DESCRIPTION)
                && let Some((end, _)) = text.char_indices().nth(REASON_CHARS_MAX)
            {
                *text = text.get(..end).unwrap_or_default().into();
            }
        }
        let fits = |properties: &Properties| {
            encode_properties(properties).len() <= self.messages.config.max_properties_bytes
        };
        let whole = stored.clone().merge(more.clone());
        if fits(&whole) {
            return whole;
        }
        more.0.retain(|(key, _)| matches!(&**key, REASON | DESCRIPTION));
        let short = stored.clone().merge(more);
        if fits(&short) { short } else { with_reason(stored, HEADER_SIZE, HEADER_SIZE_TEXT) }
    }
}

pub(crate) const HEADER_SIZE: &str = "HeaderSizeExceeded";
pub(crate) const HEADER_SIZE_TEXT: &str = "The size of the message's properties exceeds the quota.";

fn append(
    mut index: MessageIndex,
    properties: &Properties,
    record: &OpenRecord,
    out: &mut impl Output,
) -> Slot {
    let properties = encode_properties(properties);
    index.properties_length =
        u32::try_from(properties.len()).expect("properties are limited to far less than 4 GiB");
    append_message(&index, &[&properties, record.own_payload()], out)
}

pub(crate) fn with_reason(properties: Properties, reason: &str, description: &str) -> Properties {
    let text = |text: &str| PropertyValue::Text(text.into());
    let more = vec![(REASON.into(), text(reason)), (DESCRIPTION.into(), text(description))];
    properties.merge(Properties(more.into()))
}
