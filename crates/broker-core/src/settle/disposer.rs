//! Outcomes applied to messages: return, deferral, dead-lettering and removal.
//!
//! Invariant: an outcome is applied after everything that could refuse it was checked; a message that returns too
//! often, or after its time, becomes a dead letter instead.

use super::{dead_letter::DeadLetters, property_patch::PropertyPatch};
use crate::{
    Outcome, Output, QueueId, SettleError, Timestamp,
    call::Cx,
    messages::Messages,
    output_coalescer::Removal,
    record::{OpenRecord, encode_changed},
    store::{Store, load_message::DiskAccess, slot::State},
};

/// Moves, returns and rewrites messages that were handed out or whose time is over.
#[derive(Debug)]
pub(crate) struct Disposer<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> Disposer<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl Disposer<'_> {
    /// Reads the record where the outcome has to write it anew, and refuses what cannot be done.
    pub(crate) fn record_for(
        &mut self,
        queue: QueueId,
        sequence: u64,
        outcome: &Outcome,
        out: &mut impl Output,
    ) -> Result<Option<OpenRecord>, SettleError> {
        let is_dead = || self.messages.store(queue).is_some_and(Store::is_dead_letter);
        if matches!(outcome, Outcome::DeadLetter(_)) && is_dead() {
            return Err(SettleError::AlreadyDeadLetter);
        }
        if !outcome.writes_anew() {
            return Ok(None);
        }
        let read = self.messages.entities.read_message(queue, sequence, DiskAccess::Wait, out);
        let record = read.map_err(|_| SettleError::Storage)?;
        record.properties().map_err(|_| SettleError::Storage)?;
        Ok(Some(record))
    }

    /// Whether the outcome of a locked message reads it, because it is written anew or becomes a dead letter.
    pub(crate) fn reads(&self, now: Timestamp, queue: QueueId, sequence: u64, outcome: &Outcome) -> bool {
        let becomes_dead = || match outcome {
            Outcome::Complete => false,
            Outcome::Release(_) => self.becomes_dead_letter(now, queue, sequence, false),
            Outcome::Abandon(_) | Outcome::Defer(_) => self.becomes_dead_letter(now, queue, sequence, true),
            Outcome::DeadLetter(_) => true,
        };
        outcome.writes_anew() || becomes_dead()
    }

    /// Whether a message that returns now, as failed or not, may become a dead letter instead.
    pub(crate) fn becomes_dead_letter(
        &self,
        now: Timestamp,
        queue: QueueId,
        sequence: u64,
        failed: bool,
    ) -> bool {
        let Some(store) = self.messages.store(queue) else { return false };
        let (Some(slot), Some(entity)) = (store.slots.get(sequence), store.entity()) else { return false };
        let failed = failed || slot.is_lock_over(now);
        let is_last = slot.delivery_count.saturating_add(1) >= entity.definition.settings.max_delivery_count;
        let expires = slot.state == State::Active && slot.is_expired(now);
        failed && is_last || expires && self.messages.entities.keeps_expired(queue)
    }

    /// Does what was checked.
    pub(crate) fn apply(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        outcome: Outcome,
        record: Option<OpenRecord>,
    ) {
        if outcome != Outcome::Complete {
            self.messages.entities.touch(cx, queue);
        }
        match outcome {
            Outcome::Complete => self.messages.entities.complete(cx, queue, sequence, Removal::Awaited),
            Outcome::Release(properties) => {
                self.return_message(cx, queue, sequence, false, PropertyPatch { properties, record });
            }
            Outcome::Abandon(properties) => {
                self.return_message(cx, queue, sequence, true, PropertyPatch { properties, record });
            }
            Outcome::DeadLetter(properties) => {
                DeadLetters::of(self.messages).dead_letter(
                    cx,
                    queue,
                    sequence,
                    PropertyPatch { properties, record },
                );
            }
            Outcome::Defer(properties) => {
                self.defer(cx, queue, sequence, PropertyPatch { properties, record });
            }
        }
    }

    /// A lock ends without an outcome: the message returns to its place, unless it was delivered too often or has
    /// expired. The delivery limit is checked first, because it keeps the message as a dead letter.
    pub(crate) fn return_message(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        failed: bool,
        patch: PropertyPatch,
    ) {
        let Some(store) = self.messages.store_mut(queue) else { return };
        let Some(slot) = store.slots.get_mut(sequence) else { return };
        // A lock that expired before its release counts as failed, even if its timer was not handled yet.
        let failed = failed || slot.is_lock_over(cx.now);
        let (state, expired) = (slot.state, slot.is_expired(cx.now));
        store.traffic.failed += u64::from(failed);
        let counted = if failed { count_delivery(store, sequence) } else { DeliveryCounted::No };
        store.unlock(sequence);
        if let DeliveryCounted::AtLimit(limit) = counted {
            return DeadLetters::of(self.messages).dead_letter_delivered(cx, queue, sequence, limit, patch);
        }
        if expired && state == State::Active && store.entity().is_some() {
            return DeadLetters::of(self.messages).expire(cx, queue, sequence, patch);
        }
        self.store_change(cx, queue, sequence, patch, counted == DeliveryCounted::Yes);
        if let Some(store) = self.messages.entities.stores.get_mut(&queue) {
            store.put_back(sequence);
            self.messages.entities.agenda.wake(store);
        }
    }

    /// Sets a message aside. That counts as a delivery, as Service Bus counts it, so that a message which is deferred
    /// again and again becomes a dead letter in the end.
    pub(crate) fn defer(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        patch: PropertyPatch,
    ) {
        let Some(store) = self.messages.store_mut(queue) else { return };
        let counted = count_delivery(store, sequence);
        store.unlock(sequence);
        if let DeliveryCounted::AtLimit(limit) = counted {
            return DeadLetters::of(self.messages).dead_letter_delivered(cx, queue, sequence, limit, patch);
        }
        let Some(store) = self.messages.store_mut(queue) else { return };
        store.set_state(sequence, State::Deferred);
        self.store_change(cx, queue, sequence, patch, true);
    }

    /// Records the count and state that a message has now, and its new properties if there are any.
    fn store_change(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        patch: PropertyPatch,
        changed: bool,
    ) {
        if let Some(record) = patch.record {
            return DeadLetters::of(self.messages).rewrite(cx, queue, sequence, patch.properties, &record);
        }
        let Some(slot) = self.messages.store(queue).and_then(|store| store.slots.get(sequence)) else {
            return;
        };
        if changed {
            let (position, length) =
                cx.out.record(&encode_changed(queue, sequence, slot.delivery_count, slot.state), &[]);
            // It lies behind its message, which the journal drops or moves first, with the change included: compaction
            // need not keep this record.
            cx.out.release(position, length);
        }
    }
}

/// Whether a delivery without success was counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DeliveryCounted {
    No,
    Yes,
    /// It was counted, and the message has been delivered this often, which is the limit of its entity.
    AtLimit(u32),
}

/// Counts a delivery of a locked message that did not end in its completion.
///
/// Among the dead letters Service Bus counts none, so a lock with a timer counts nothing there. A plain client holds its
/// messages without one, and AMQP demands the count of a delivery that failed (`modified`, part 3, 3.4.5).
fn count_delivery(store: &mut Store, sequence: u64) -> DeliveryCounted {
    let is_dead = store.is_dead_letter();
    let Some(slot) = store.slots.get_mut(sequence) else { return DeliveryCounted::No };
    if is_dead && slot.held_since().is_none() {
        return DeliveryCounted::No;
    }
    slot.delivery_count = slot.delivery_count.saturating_add(1);
    let count = slot.delivery_count;
    match store.entity().map(|entity| entity.definition.settings.max_delivery_count) {
        Some(limit) if count >= limit => DeliveryCounted::AtLimit(limit),
        _ => DeliveryCounted::Yes,
    }
}
