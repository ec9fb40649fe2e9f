//! Messages where they are stored: read back, removed, and referred to by copies.
//!
//! Invariant: what is read is the message that the slot stands for, or an error.

use super::table::EntityTable;
use crate::{
    EntityKind, Output, QueueId, ReadId, StorageError, Timestamp,
    call::Cx,
    output_coalescer::Removal,
    record::{BodyRef, OpenRecord},
    store::{
        Role,
        load_message::{DiskAccess, Unread, ask_for_record, read_open},
        shared_bodies::release_reference,
        slot::Slot,
    },
};

impl EntityTable {
    /// Bytes in all stores of an entity.
    pub(crate) fn entity_bytes(&self, queue: QueueId) -> u64 {
        let stores = self.main_of(queue).map(|entity| entity.definition.stores.all());
        let stores = stores.iter().flatten().filter_map(|id| self.stores.get(id));
        stores.map(|store| store.counts.bytes).sum()
    }

    /// Whether what expires in a store becomes a dead letter.
    pub(crate) fn keeps_expired(&self, queue: QueueId) -> bool {
        self.main_of(queue).is_some_and(|entity| entity.definition.settings.dead_letter_on_expiration)
    }

    /// Sees to it that what a store noted is recorded at the end of this call.
    #[inline]
    pub(crate) fn note_history(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let history = self.stores.get(&queue).and_then(|store| store.history.as_ref());
        if history.is_some_and(|history| history.is_open()) && !cx.dirty_histories.contains(&queue) {
            cx.dirty_histories.push(queue);
        }
    }

    /// A send, receive or peek: that is an access, and counts as use.
    pub(crate) fn touch(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        if let Some(store) = self.stores.get_mut(&queue) {
            store.touched_at = cx.now;
        }
    }

    /// Something was done to an entity that counts as use, and is no access.
    pub(crate) fn mark_used(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let now = cx.now;
        if let Some(Role::Main(entity)) = self.stores.get_mut(&queue).map(|store| &mut store.role) {
            entity.used_at = now;
        }
    }

    /// A lock of one of its messages or sessions ran out: up to its end, whenever that is noticed, it was use.
    pub(crate) fn was_used_until(&mut self, queue: QueueId, at: Timestamp) {
        let of = match self.stores.get(&queue).map(|store| &store.role) {
            Some(Role::DeadLetter { of } | Role::TransferDeadLetter { of }) => *of,
            _ => queue,
        };
        if let Some(Role::Main(entity)) = self.stores.get_mut(&of).map(|store| &mut store.role) {
            entity.used_at = entity.used_at.max(at);
        }
    }

    /// All stores whose use is the entity's: its own, and those of a topic's subscriptions.
    pub(crate) fn parts(&self, queue: QueueId) -> Vec<QueueId> {
        let Some(definition) = self.main_of(queue).map(|entity| &entity.definition) else {
            return Vec::new();
        };
        let mut parts = definition.stores.all().to_vec();
        if definition.kind == EntityKind::Topic {
            let subscriptions = self.subscriptions_of(queue);
            let definitions = subscriptions.filter_map(|id| Some(&self.main_of(id)?.definition));
            parts.extend(definitions.flat_map(|definition| definition.stores.all()));
        }
        parts
    }

    /// Reads a message of a store back.
    pub(crate) fn read_message(
        &self,
        queue: QueueId,
        sequence: u64,
        disk: DiskAccess,
        out: &mut impl Output,
    ) -> Result<OpenRecord, Unread> {
        let missing = || StorageError { at: crate::Position::default(), reason: "no such message".into() };
        let store = self.stores.get(&queue).ok_or_else(missing)?;
        let slot = store.slots.get(sequence).ok_or_else(missing)?;
        let bodies = store.body_refs.topic().and_then(|topic| self.stores.get(&topic));
        read_open(store, sequence, slot, bodies.map(|bodies| &**bodies), disk, out)
    }

    /// Asks for what it takes to read a message. Says which read has to be done before, unless the message is at hand, or will
    /// never be.
    pub(crate) fn ask_for_message(
        &self,
        queue: QueueId,
        sequence: u64,
        out: &mut impl Output,
    ) -> Option<ReadId> {
        let store = self.stores.get(&queue)?;
        let own = store.slots.get(sequence).map(|slot| (slot.position, slot.length));
        let body = store.body_refs.get(sequence);
        let body = body.and_then(|body| self.stores.get(&body.topic)?.slots.get(body.sequence));
        let [own, body] = [own, body.map(|slot| (slot.position, slot.length))]
            .map(|place| place.and_then(|place| ask_for_record(place, out)));
        own.or(body)
    }

    /// Bytes that a copy shares with others; 0 for a message that is no copy.
    pub(crate) fn body_length(&self, queue: QueueId, sequence: u64) -> u32 {
        let body = self.stores.get(&queue).and_then(|store| store.body_refs.get(sequence));
        let shared = body.and_then(|body| self.stores.get(&body.topic)?.slots.get(body.sequence));
        shared.map_or(0, |slot| slot.length)
    }

    /// A message was processed.
    pub(crate) fn complete(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        removal: Removal,
    ) {
        let now = cx.now;
        let removed = self.stores.get_mut(&queue).and_then(|store| {
            store.touched_at = now;
            store.traffic.completed += 1;
            store.remove(sequence)
        });
        self.removed(cx, queue, sequence, removed, removal);
    }

    /// Removes a message that was not completed.
    pub(crate) fn discard(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, sequence: u64) {
        let removed = self.stores.get_mut(&queue).and_then(|store| store.remove(sequence));
        self.removed(cx, queue, sequence, removed, Removal::Awaited);
    }

    pub(crate) fn removed(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequence: u64,
        removed: Option<(Slot, Option<BodyRef>)>,
        removal: Removal,
    ) {
        if let Some((slot, body)) = removed {
            cx.removed(queue, sequence, removal);
            cx.out.release(slot.position, slot.length);
            if let Some(body) = body {
                self.drop_reference(body, cx.out);
            }
        }
    }

    /// One copy more refers to a body.
    pub(crate) fn add_reference(&mut self, body: BodyRef) {
        if let Some(bodies) = self.stores.get_mut(&body.topic) {
            bodies.count_reference(body.sequence, true);
        }
    }

    /// One copy less refers to a body.
    pub(crate) fn drop_reference(&mut self, body: BodyRef, out: &mut impl Output) {
        if let Some(bodies) = self.stores.get_mut(&body.topic) {
            release_reference(bodies, body.sequence, out);
        }
    }

    /// Puts a store under its earliest deadline.
    pub(crate) fn rearm(&mut self, queue: QueueId) {
        if let Some(store) = self.stores.get_mut(&queue) {
            self.agenda.arm(store);
        }
    }
}
