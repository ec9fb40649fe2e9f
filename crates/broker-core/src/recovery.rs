//! The journal read back, and cleaned up.
//!
//! Invariant: replay applies facts and decides nothing. A message or definition is alive in the journal exactly
//! where its slot or entity says it lies.

use bytes::Bytes;

use crate::{
    EntityKind, EntitySettings, Output, Position, QueueId, RecordError, Timestamp, Work,
    admin::{entities::EntityAdmin, rules::RuleAdmin},
    entity::name,
    messages::Messages,
    record::{
        ACQUIRED, Definition, Fact, MessageIndex, OpenRecord, SessionStateIndex, Stores,
        encode_session_state, session_state_of,
    },
    store::{
        ReplayedNumbers, Role, Store,
        append_message::{append_message, slot_of},
        sessions::{Session, SessionState},
        shared_bodies::with_bodies,
        slot::{Slot, State},
    },
};

/// A record that this program cannot have written, or cannot read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record at position {}: {error}", at.0)]
pub struct ReplayError {
    pub at: Position,
    pub error: RecordError,
}

/// Reads the journal back, and moves what is alive in it.
#[derive(Debug)]
pub(crate) struct Recovery<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> Recovery<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl Recovery<'_> {
    /// Takes in one record of the journal, in order, before anything else. `index` is at least the record's index;
    /// `length` is the length that [`Output::record`] returned for it.
    pub(crate) fn replay(&mut self, at: Position, index: &[u8], length: u32) -> Result<(), ReplayError> {
        match Fact::decode(index).map_err(|error| ReplayError { at, error })? {
            Fact::Message(index) => {
                self.replay_message(&index, at, length).map_err(|error| ReplayError { at, error })?;
            }
            Fact::Rule(record) => RuleAdmin::of(self.messages).replay_rule(*record, at, length),
            Fact::Removed { queue, runs } => {
                let Some(store) = self.messages.store_mut(queue) else { return Ok(()) };
                for (first, count) in runs {
                    let end = first.saturating_add(u64::from(count));
                    while let Some(sequence) = store.slots.next_before(first, end) {
                        store.replay_removal(sequence);
                        store.body_refs.remove(sequence);
                    }
                }
            }
            Fact::Changed { queue, sequence, delivery_count, state } => {
                let Some(store) = self.messages.store_mut(queue) else { return Ok(()) };
                if let Some(slot) = store.slots.get_mut(sequence) {
                    slot.delivery_count = delivery_count;
                    slot.state = state;
                    store.update_session_state(sequence);
                }
            }
            Fact::History(run) => {
                let seed = self.messages.tokens.seed();
                self.replay_store(run.queue).history(seed).replay(run, at, length);
            }
            Fact::Forgotten { queue, kept_from } => {
                let seed = self.messages.tokens.seed();
                self.replay_store(queue).history(seed).replay_forgotten(kept_from);
            }
            Fact::SessionState(index) => self.replay_session_state(&index, at, length),
            Fact::Definition(definition) => {
                self.check_roles(definition.stores).map_err(|error| ReplayError { at, error })?;
                EntityAdmin::of(self.messages).place(*definition, at, length);
            }
            Fact::Deleted(stores) => {
                self.check_roles(stores).map_err(|error| ReplayError { at, error })?;
                for id in stores.all() {
                    self.messages.entities.stores.remove(&id);
                }
                self.messages.rules.remove_all(None, stores.queue);
            }
        }
        Ok(())
    }

    /// Stores belong together for good: a record that says otherwise would tear an entity apart.
    fn check_roles(&self, stores: Stores) -> Result<(), RecordError> {
        let Stores { queue, dead_letter, transfer_dead_letter } = stores;
        let role = |id| self.messages.store(id).map_or(&Role::Unknown, |store| &store.role);
        let fits_main = match role(queue) {
            Role::Main(entity) => entity.definition.stores == stores,
            other => matches!(other, Role::Unknown),
        };
        let fits_dead_letter = match role(dead_letter) {
            Role::DeadLetter { of } => *of == queue,
            other => matches!(other, Role::Unknown),
        };
        let fits_transfer = match role(transfer_dead_letter) {
            Role::TransferDeadLetter { of } => *of == queue,
            other => matches!(other, Role::Unknown),
        };
        let checks = [
            ("queue", queue, fits_main),
            ("dead_letter", dead_letter, fits_dead_letter),
            ("transfer_dead_letter", transfer_dead_letter, fits_transfer),
        ];
        match checks.into_iter().find(|(.., fits)| !fits) {
            Some((field, id, _)) => Err(RecordError::Value { field, value: u64::from(id.0) }),
            None => Ok(()),
        }
    }

    pub(crate) fn replay_message(
        &mut self,
        index: &MessageIndex,
        at: Position,
        length: u32,
    ) -> Result<(), RecordError> {
        let session = index.extras.as_ref().and_then(|extras| extras.session.as_deref());
        let session = session.map(|session| (session, self.messages.tokens.seed()));
        let store = self.replay_store(index.queue);
        let mut slot = slot_of(index, at, length);
        if index.flags & ACQUIRED != 0 {
            slot.set_acquired();
        }
        store.replay_message(index.sequence, slot, session);
        store.replayed.note(index.sequence);
        let came_by_itself =
            index.body.is_some() || index.extras.as_ref().is_some_and(|extras| extras.hops > 0);
        if !came_by_itself {
            store.replayed.sent_at = store.replayed.sent_at.max(index.enqueued_at);
        }
        if let Some(body) = index.body {
            if store.body_refs.topic().is_some_and(|topic| topic != body.topic) {
                return Err(RecordError::Value { field: "body", value: u64::from(body.topic.0) });
            }
            store.body_refs.insert(index.sequence, body);
        }
        Ok(())
    }

    /// The store that a record speaks of. Its definition may have been moved behind the record.
    fn replay_store(&mut self, id: QueueId) -> &mut Store {
        self.messages.entities.next_store = self.messages.entities.next_store.max(id.0.saturating_add(1));
        let lock_duration = EntitySettings::default().lock_duration;
        self.messages
            .entities
            .stores
            .entry(id)
            .or_insert_with(|| Box::new(Store::new(id, Role::Unknown, lock_duration)))
    }

    fn replay_session_state(&mut self, index: &SessionStateIndex, position: Position, length: u32) {
        let seed = self.messages.tokens.seed();
        let store = self.replay_store(index.queue);
        let state = SessionState { position, length, updated_at: index.updated_at };
        let sessions = store.sessions(seed);
        let number = sessions.get_or_create(&index.session);
        sessions.set_state(number, index.has_state.then_some(state));
    }

    /// After the last record: nothing is locked, everything else stands where it stood. Messages whose queue's
    /// definition was lost (a repaired journal) are found in a queue `recovered-<number>`.
    pub(crate) fn recovered(&mut self, out: &mut impl Output) {
        let mut ids: Vec<QueueId> = self.messages.entities.stores.keys().copied().collect();
        ids.sort_unstable();
        for queue in &ids {
            if let Some(entity) = self.messages.entities.stores.get(queue).and_then(|store| store.entity()) {
                self.messages.entities.names.insert(name::key(&entity.definition.name), *queue);
                self.messages.entities.listed.enter(&entity.definition);
            }
        }
        for queue in &ids {
            self.adopt_orphan(*queue, out);
        }
        self.count_references(&ids, out);
        self.settle_rules(out);
        for queue in ids {
            self.finish(queue);
        }
    }

    /// Counts for each body how many copies refer to it. Those that none refers to go. A copy whose body is lost (a
    /// repaired journal) is hidden and counts as damaged.
    fn count_references(&mut self, ids: &[QueueId], out: &mut impl Output) {
        for queue in ids {
            let Some((store, mut bodies)) = with_bodies(&mut self.messages.entities.stores, *queue) else {
                continue;
            };
            let body_refs = std::mem::take(&mut store.body_refs);
            for (sequence, body) in body_refs.iter() {
                let shared = bodies.as_deref_mut().and_then(|bodies| bodies.slots.get_mut(body));
                match shared.filter(|slot| slot.state == State::Body) {
                    Some(shared) => shared.set_references(shared.references().saturating_add(1)),
                    None => drop(store.slots.get_mut(sequence).map(Slot::set_damaged)),
                }
            }
            store.body_refs = body_refs;
        }
        for queue in ids {
            let Some(store) = self.messages.store_mut(*queue) else { continue };
            let unused = |(_, slot): &(u64, &Slot)| slot.state == State::Body && slot.references() == 0;
            let unused: Vec<u64> = store.slots.iter().filter(unused).map(|(sequence, _)| sequence).collect();
            for sequence in unused {
                if let Some(slot) = store.slots.remove(sequence) {
                    out.release(slot.position, slot.length);
                }
            }
        }
    }

    fn settle_rules(&mut self, out: &mut impl Output) {
        let mut rules = std::mem::take(&mut self.messages.rules);
        for (position, length) in
            rules.settle(|subscription| self.messages.main_of(subscription)?.definition.topic)
        {
            out.release(position, length);
        }
        self.messages.rules = rules;
    }

    /// Names a store that has no definition.
    fn adopt_orphan(&mut self, queue: QueueId, out: &mut impl Output) {
        let Some(store) = self.messages.store(queue).filter(|store| matches!(store.role, Role::Unknown))
        else {
            return;
        };
        let next_sequence = store.replayed.plain + 1;
        let mut name = format!("recovered-{}", queue.0);
        while self.messages.entities.names.contains_key(name.as_str()) {
            name.push_str("-x");
        }
        let created_at =
            store.slots.iter().next().map_or(Timestamp::default(), |(_, slot)| slot.enqueued_at());
        let mut free =
            (1..u32::MAX).map(QueueId).filter(|id| !self.messages.entities.stores.contains_key(id));
        let mut free = || free.next().expect("four billion stores do not fit into memory");
        let definition = Definition {
            kind: EntityKind::Queue,
            stores: Stores { queue, dead_letter: free(), transfer_dead_letter: free() },
            topic: None,
            name: name.into(),
            settings: EntitySettings {
                requires_session: store.sessions.is_some(),
                ..EntitySettings::default()
            },
            next_sequence,
            partitions: None,
            created_at,
            updated_at: created_at,
            accessed_at: Timestamp::default(),
        };
        EntityAdmin::of(self.messages).adopt(definition, out);
    }

    /// Computes what replay left out for one store.
    pub(crate) fn finish(&mut self, queue: QueueId) {
        let stores = self.messages.main_of(queue).map_or([queue; 3], |entity| entity.definition.stores.all());
        let stores = stores.into_iter().filter_map(|id| self.messages.store(id));
        let mut seen = ReplayedNumbers::default();
        stores.for_each(|store| seen.merge(&store.replayed));
        let Some(store) = self.messages.entities.stores.get_mut(&queue) else { return };
        store.rebuild();
        self.messages.entities.agenda.arm(store);
        if store.forwards.is_some() && store.next_ready().is_some() {
            self.messages.entities.agenda.wake(store);
        }
        self.messages.history_len += store.history.as_ref().map_or(0, |history| history.len() as u64);
        if let Role::Main(entity) = &mut store.role {
            seen.tell(&mut entity.definition);
        }
    }

    /// The journal cleans up and meets this record in its oldest segment: it is appended anew if it is alive.
    pub(crate) fn relocate(
        &mut self,
        at: Position,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), ReplayError> {
        out.charge(Work::COMMAND);
        let error = |error| ReplayError { at, error };
        match Fact::decode(record).map_err(error)? {
            Fact::Message(index) => self.relocate_message(at, &index, record, out).map_err(error),
            Fact::Definition(definition) => {
                let queue = definition.stores.queue;
                let entity = self.messages.entity(queue);
                if entity.is_some_and(|entity| entity.position == at) {
                    self.messages.entities.rewrite_definition(queue, out);
                }
                Ok(())
            }
            Fact::Rule(record) => {
                RuleAdmin::of(self.messages).relocate_rule(at, &record, out);
                Ok(())
            }
            Fact::History(run) => {
                let store = self.messages.store_mut(run.queue);
                if let Some(history) = store.and_then(|store| store.history.as_mut()) {
                    history.relocate(&run, at, record, out);
                }
                Ok(())
            }
            Fact::SessionState(index) => self.relocate_session_state(at, &index, record, out).map_err(error),
            // Nothing to copy: the slots hold the content, and the records that these refer to lie before them, so they
            // are gone or were copied already.
            Fact::Removed { .. } | Fact::Changed { .. } | Fact::Deleted(_) | Fact::Forgotten { .. } => Ok(()),
        }
    }

    fn relocate_message(
        &mut self,
        at: Position,
        index: &MessageIndex,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), RecordError> {
        let Some(store) = self.messages.store_mut(index.queue) else { return Ok(()) };
        let Some(slot) = store.slots.get(index.sequence).copied().filter(|slot| slot.position == at) else {
            return Ok(());
        };
        let open = OpenRecord::open(record.clone())?;
        let mut now = index.updated(&slot);
        now.flags |= if slot.is_acquired() { ACQUIRED } else { 0 };
        let written = append_message(&now, &[&open.rest], out);
        out.release(at, slot.length);
        store.set_position(index.sequence, written.position, written.length);
        Ok(())
    }

    fn relocate_session_state(
        &mut self,
        at: Position,
        index: &SessionStateIndex,
        record: &Bytes,
        out: &mut impl Output,
    ) -> Result<(), RecordError> {
        let Some(store) = self.messages.store_mut(index.queue) else { return Ok(()) };
        let Some(number) = store.sessions.as_ref().and_then(|sessions| sessions.find(&index.session)) else {
            return Ok(());
        };
        let state = store.session(number).and_then(Session::state).filter(|state| state.position == at);
        let Some(state) = state else { return Ok(()) };
        let bytes = session_state_of(record.clone(), index.queue, &index.session);
        let bytes = bytes.ok_or(RecordError::Short { field: "session" })?;
        let moved = encode_session_state(index.queue, &index.session, index.updated_at, true);
        let (position, length) = out.record(&moved, &[&bytes]);
        out.release(at, state.length);
        store.set_session_state(number, Some(SessionState { position, length, ..state }));
        Ok(())
    }
}
