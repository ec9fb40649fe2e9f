//! The journal read back, and cleaned up.
//!
//! Invariant: replay applies facts and decides nothing. A message or definition is alive in the journal exactly
//! where its slot or entity says it lies.

use bytes::Bytes;

use super::Core;
use crate::{
    Output, Position, QueueId, QueueSettings, RecordError, Timestamp, name,
    record::{ACQUIRED, Definition, Fact, MessageIndex, OpenRecord},
    slot::Slot,
    store::{Role, Store},
};

/// A record that this program cannot have written, or cannot read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record at position {}: {error}", at.0)]
pub struct ReplayError {
    /// Where it lies.
    pub at: Position,
    /// What is wrong with it.
    pub error: RecordError,
}

impl Core {
    /// Takes in one record of the journal, in order, before anything else. `index` is at least the record's index;
    /// `length` is what [`Output::record`] said of it.
    pub fn replay(&mut self, at: Position, index: &[u8], length: u32) -> Result<(), ReplayError> {
        match Fact::decode(index).map_err(|error| ReplayError { at, error })? {
            Fact::Message(index) => self.replay_message(&index, at, length),
            Fact::Removed { queue, runs } => {
                let Some(store) = self.stores.get_mut(&queue) else { return Ok(()) };
                for (first, count) in runs {
                    let end = first.saturating_add(u64::from(count));
                    while let Some(sequence) = store.slots.next_before(first, end) {
                        store.slots.remove(sequence);
                    }
                }
            }
            Fact::Changed { queue, sequence, delivery_count, state } => {
                let slot = self.stores.get_mut(&queue).and_then(|store| store.slots.get_mut(sequence));
                if let Some(slot) = slot {
                    slot.delivery_count = delivery_count;
                    slot.state = state;
                }
            }
            Fact::Definition(definition) => {
                self.check_roles(definition.queue, definition.dead_letter)
                    .map_err(|error| ReplayError { at, error })?;
                self.place(definition, at, length);
            }
            Fact::Deleted { queue, dead_letter } => {
                self.check_roles(queue, dead_letter).map_err(|error| ReplayError { at, error })?;
                self.stores.remove(&queue);
                self.stores.remove(&dead_letter);
            }
        }
        Ok(())
    }

    /// Two stores belong together for good: a record that says otherwise would tear a queue apart.
    fn check_roles(&self, queue: QueueId, dead_letter: QueueId) -> Result<(), RecordError> {
        let role = |id| self.stores.get(&id).map(|store| &store.role);
        let wrong = |field, id: QueueId| Err(RecordError::Value { field, value: u64::from(id.0) });
        match role(queue) {
            Some(Role::DeadLetter { .. }) => return wrong("queue", queue),
            Some(Role::Main(entity)) if entity.definition.dead_letter != dead_letter => {
                return wrong("dead_letter", dead_letter);
            }
            Some(Role::Main(_) | Role::Unknown) | None => {}
        }
        match role(dead_letter) {
            Some(Role::Main(_)) => wrong("dead_letter", dead_letter),
            Some(Role::DeadLetter { of }) if *of != queue => wrong("dead_letter", dead_letter),
            Some(Role::DeadLetter { .. } | Role::Unknown) | None => Ok(()),
        }
    }

    fn replay_message(&mut self, index: &MessageIndex, at: Position, length: u32) {
        let id = index.queue;
        // Its definition may have been moved behind it.
        let lock_duration = QueueSettings::default().lock_duration;
        let store =
            self.stores.entry(id).or_insert_with(|| Box::new(Store::new(id, Role::Unknown, lock_duration)));
        let mut slot = Slot::new(at, length, index.enqueued_at, index.expires_at);
        slot.state = index.state;
        slot.delivery_count = index.delivery_count;
        slot.until = index.due.unwrap_or(Timestamp::MAX);
        if index.flags & ACQUIRED != 0 {
            slot.set_acquired();
        }
        store.slots.insert(index.sequence, slot);
        store.seen = store.seen.max(index.sequence);
        self.next_store = self.next_store.max(id.0.saturating_add(1));
    }

    /// After the last record: nothing is locked, everything else stands where it stood. Messages whose queue's
    /// definition was lost (a repaired journal) are found in a queue `recovered-<number>`.
    pub fn recovered(&mut self, out: &mut impl Output) {
        let mut ids: Vec<QueueId> = self.stores.keys().copied().collect();
        ids.sort_unstable();
        for queue in &ids {
            if let Some(entity) = self.stores.get(queue).and_then(|store| store.entity()) {
                self.names.insert(name::key(&entity.definition.name), *queue);
            }
        }
        for queue in &ids {
            self.adopt_orphan(*queue, out);
        }
        for queue in ids {
            self.finish(queue);
        }
    }

    /// Names a store that has no definition.
    fn adopt_orphan(&mut self, queue: QueueId, out: &mut impl Output) {
        let Some(store) = self.stores.get(&queue).filter(|store| matches!(store.role, Role::Unknown)) else {
            return;
        };
        let next_sequence = store.seen + 1;
        let mut name = format!("recovered-{}", queue.0);
        while self.names.contains_key(name.as_str()) {
            name.push_str("-x");
        }
        let dead_letter = (1..u32::MAX).map(QueueId).find(|id| !self.stores.contains_key(id));
        let dead_letter = dead_letter.expect("four billion stores do not fit into memory");
        let settings = QueueSettings::default();
        self.adopt(Definition { queue, dead_letter, name: name.into(), settings, next_sequence }, out);
    }

    /// Computes what replay left out for one store.
    fn finish(&mut self, queue: QueueId) {
        let dead_letter = self.main_of(queue).map(|entity| entity.definition.dead_letter);
        let seen = dead_letter.and_then(|id| self.stores.get(&id)).map_or(0, |store| store.seen);
        let Some(store) = self.stores.get_mut(&queue) else { return };
        store.rebuild();
        store.arm(&mut self.timers);
        if let Role::Main(entity) = &mut store.role {
            let next = &mut entity.definition.next_sequence;
            *next = (*next).max(seen.max(store.seen) + 1);
        }
    }

    /// All records that are alive: position and length, in no order. What the journal holds beside them is dead.
    pub fn live_records(&self) -> impl Iterator<Item = (Position, u32)> {
        self.stores.values().flat_map(|store| {
            let definition = store.entity().map(|entity| (entity.position, entity.length));
            definition.into_iter().chain(store.slots.iter().map(|(_, slot)| (slot.position, slot.length)))
        })
    }

    /// The journal cleans up and meets this record in its oldest segment: it is appended anew if it is alive.
    pub fn relocate(
        &mut self,
        at: Position,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), ReplayError> {
        let error = |error| ReplayError { at, error };
        match Fact::decode(record).map_err(error)? {
            Fact::Message(index) => self.relocate_message(at, &index, record, out).map_err(error),
            Fact::Definition(definition) => {
                let entity = self.stores.get(&definition.queue).and_then(|store| store.entity());
                if entity.is_some_and(|entity| entity.position == at) {
                    self.rewrite_definition(definition.queue, out);
                }
                Ok(())
            }
            // What these say is in the slots, and what they speak of lies before them: it is gone or was moved.
            Fact::Removed { .. } | Fact::Changed { .. } | Fact::Deleted { .. } => Ok(()),
        }
    }

    fn relocate_message(
        &mut self,
        at: Position,
        index: &MessageIndex,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), RecordError> {
        let Some(store) = self.stores.get_mut(&index.queue) else { return Ok(()) };
        let Some(slot) = store.slots.get(index.sequence).copied().filter(|slot| slot.position == at) else {
            return Ok(());
        };
        let open = OpenRecord::open(record.clone())?;
        let acquired = if slot.is_acquired() { ACQUIRED } else { 0 };
        let now = MessageIndex {
            delivery_count: slot.delivery_count,
            state: slot.state,
            flags: index.flags | acquired,
            ..*index
        };
        let (position, length) = out.record(now.encode().as_slice(), &[&open.rest]);
        out.release(at, slot.length);
        store.set_position(index.sequence, position, length);
        Ok(())
    }

    /// The journal has gone through its oldest segment, which ends at `up_to`. Definitions in it are appended anew,
    /// with the next sequence number of their queue.
    pub fn segment_done(&mut self, up_to: Position, out: &mut impl Output) {
        let queues: Vec<QueueId> = self.names.values().copied().collect();
        for queue in queues {
            let entity = self.stores.get(&queue).and_then(|store| store.entity());
            if entity.is_some_and(|entity| entity.position < up_to) {
                self.rewrite_definition(queue, out);
            }
        }
    }

    fn rewrite_definition(&mut self, queue: QueueId, out: &mut impl Output) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        let Role::Main(entity) = &mut store.role else { return };
        out.release(entity.position, entity.length);
        (entity.position, entity.length) = out.record(&entity.definition.encode(), &[]);
    }
}
