//! Deferred messages are taken by their numbers (`service-bus-entities` 11).
//!
//! Invariant: of one request all messages are taken or none is. A message taken under a lock stays deferred until it
//! is settled, whatever its time to live says.

use std::collections::BTreeSet;

use super::{
    Core,
    pump::{Bound, with_bodies},
    reading::read_stored,
    settle::Addition,
    status::Use,
};
use crate::{
    ClientId, EntityError, EntityPath, Fetched, Lock, LockId, Output, QueueId, SequenceNumber, Stored,
    Timestamp,
    sessions::SessionNumber,
    slot::{ConsumerNumber, Slot, State},
};

/// Holder of a lock that belongs to no link: it ends by its time or by its token only.
const NOBODY: ConsumerNumber = ConsumerNumber(0);

/// The fields of a `ReceiveDeferred`.
#[derive(Debug)]
pub(super) struct FetchRequest {
    pub(super) path: EntityPath,
    pub(super) session: Option<Box<str>>,
    pub(super) sequences: Vec<SequenceNumber>,
    pub(super) delete: bool,
    pub(super) bytes: u64,
}

impl Core {
    pub(super) fn fetch(
        &mut self,
        now: Timestamp,
        client: ClientId,
        request: &FetchRequest,
        bound: &mut Bound,
        out: &mut impl Output,
    ) -> Result<Vec<Fetched>, EntityError> {
        let missing = || EntityError::NotFound(request.path.entity.clone());
        let queue = self.resolve(&request.path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive)?;
        self.touch(queue);
        let session = self.fetching_session(now, client, queue, request)?;
        if self.end_overdue_locks(now, queue, &request.sequences, out) {
            // What this appended can be read in the next call only.
            bound.messages = 0;
        }
        let read = self.read_deferred(queue, session, request, out)?;
        if let Some(store) = self.stores.get_mut(&queue) {
            store.traffic.outgoing += read.len() as u64;
            store.traffic.completed += if request.delete { read.len() as u64 } else { 0 };
        }
        let mut messages = Vec::with_capacity(read.len());
        for (sequence, stored) in read {
            bound.spend(stored.payload.len());
            let lock = if request.delete {
                self.discard(queue, sequence.0, out);
                None
            } else {
                self.lock_deferred(now, queue, sequence)
            };
            messages.push(Fetched { sequence, lock, stored });
        }
        Ok(messages)
    }

    /// In an entity with sessions only the holder of a session takes that session's messages.
    fn fetching_session(
        &self,
        now: Timestamp,
        client: ClientId,
        queue: QueueId,
        request: &FetchRequest,
    ) -> Result<Option<SessionNumber>, EntityError> {
        if self.stores.get(&queue).is_none_or(|store| store.sessions.is_none()) {
            return Ok(None);
        }
        let required = || EntityError::SessionRequired(request.path.entity.clone());
        let session = request.session.as_deref().ok_or_else(required)?;
        match self.held_session(now, client, &request.path, session) {
            Ok((_, number)) => Ok(Some(number)),
            Err(_) => Err(EntityError::SessionLockLost),
        }
    }

    /// Locks that are over may not have been noticed yet. Says whether one was ended.
    fn end_overdue_locks(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        sequences: &[SequenceNumber],
        out: &mut impl Output,
    ) -> bool {
        let mut ended = false;
        for sequence in sequences {
            let slot = self.stores.get(&queue).and_then(|store| store.slots.get(sequence.0));
            if slot.is_some_and(|slot| slot.is_lock_over(now)) {
                self.give_back(now, queue, sequence.0, true, Addition::default(), out);
                ended = true;
            }
        }
        ended
    }

    /// Finds and reads all that is asked for, in the order in which it is asked for.
    fn read_deferred(
        &mut self,
        queue: QueueId,
        session: Option<SessionNumber>,
        request: &FetchRequest,
        out: &mut impl Output,
    ) -> Result<Vec<(SequenceNumber, Stored)>, EntityError> {
        let entity = &request.path.entity;
        let missing = || EntityError::NotFound(entity.clone());
        let (store, bodies) = with_bodies(&mut self.stores, queue).ok_or_else(missing)?;
        let mut seen = BTreeSet::new();
        let mut slots = Vec::with_capacity(request.sequences.len());
        for sequence in request.sequences.iter().copied().filter(|sequence| seen.insert(*sequence)) {
            let slot = store
                .slots
                .get(sequence.0)
                .copied()
                .filter(|slot| slot.state == State::Deferred && !slot.is_locked() && !slot.is_damaged())
                .filter(|slot| session.is_none_or(|session| session.0 == slot.holder.0));
            let not_found = || EntityError::MessageNotFound { entity: entity.clone(), sequence };
            slots.push((sequence, slot.ok_or_else(not_found)?));
        }
        let body = |sequence: &SequenceNumber| {
            let body = store.body_of(sequence.0)?;
            bodies.as_ref()?.slots.get(body.sequence).map(|body| u64::from(body.length))
        };
        let length = |(sequence, slot): &(SequenceNumber, Slot)| {
            u64::from(slot.length) + body(sequence).unwrap_or_default()
        };
        let (bytes, limit) = (slots.iter().map(length).sum(), request.bytes);
        if bytes > limit && slots.len() > 1 {
            return Err(EntityError::AnswerTooLarge { bytes, limit });
        }
        let mut messages = Vec::with_capacity(slots.len());
        for (sequence, slot) in slots {
            let Ok(stored) = read_stored(store, sequence.0, &slot, bodies.as_deref(), out) else {
                store.set_damaged(sequence.0);
                return Err(EntityError::Storage);
            };
            messages.push((sequence, stored));
        }
        Ok(messages)
    }

    fn lock_deferred(&mut self, now: Timestamp, queue: QueueId, sequence: SequenceNumber) -> Option<Lock> {
        let store = self.stores.get_mut(&queue)?;
        let id = LockId(self.next_lock);
        self.next_lock = self.next_lock.wrapping_add(1);
        let until = if store.sessions.is_some() {
            store.lock_in_session(sequence.0, id)
        } else {
            let until = now.after(store.lock_duration);
            store.lock(sequence.0, id, NOBODY, until);
            until
        };
        store.arm(&mut self.timers);
        Some(Lock { id, token: self.tokens.seal(queue, id, sequence), until })
    }
}
