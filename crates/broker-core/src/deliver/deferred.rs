//! Deferred messages are received by their sequence numbers (`docs/features/deferral.md`).
//!
//! Invariant: of one request all messages are taken or none is. A message taken under a lock stays deferred until it
//! is settled, even after its time to live.

use std::collections::BTreeSet;

use super::{
    budget::DeliveryBudget,
    pending_read::{Answer, FetchRequest},
};
use crate::{
    ClientId, EntityError, Fetched, Lock, LockId, Output, QueueId, ReadId, SequenceNumber, Stored, Timestamp,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    session::requests::SessionRequests,
    settle::{disposer::Disposer, property_patch::PropertyPatch},
    store::{
        load_message::{DiskAccess, Unread, read_stored},
        sessions::SessionNumber,
        shared_bodies::with_bodies,
        slot::{ConsumerNumber, Slot, State},
    },
};

/// Holder of a lock that belongs to no link: it ends by its time or by its token only.
const NOBODY: ConsumerNumber = ConsumerNumber(0);

/// Receives deferred messages by their numbers.
#[derive(Debug)]
pub(crate) struct DeferredReceiver<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> DeferredReceiver<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl DeferredReceiver<'_> {
    pub(crate) fn fetch(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        request: &mut FetchRequest,
        disk: DiskAccess,
        budget: &mut DeliveryBudget,
    ) -> Result<Answer<Vec<Fetched>>, EntityError> {
        let missing = || EntityError::NotFound(request.path.entity.clone());
        let queue = self.state.resolve(&request.path).ok_or_else(missing)?;
        self.state.messages.entities.check_use(queue, Use::Receive)?;
        self.state.messages.entities.touch(cx, queue);
        let session = self.fetching_session(cx.now, cx.client, queue, request)?;
        if disk == DiskAccess::Later
            && let Some(read) = self.ask_for_overdue(cx, queue, &request.sequences)
        {
            return Ok(Answer::Disk(read));
        }
        if self.end_overdue_locks(cx, queue, &request.sequences) {
            // Records that this call appended can be read in the next call only.
            budget.messages = 0;
        }
        let read = match self.read_deferred(queue, session, request, disk, cx.out)? {
            Answer::Whole(read) => read,
            Answer::Unfinished => return Ok(Answer::Unfinished),
            Answer::Disk(read) => return Ok(Answer::Disk(read)),
        };
        if let Some(store) = self.state.store_mut(queue) {
            store.traffic.outgoing += read.len() as u64;
            store.traffic.completed += if request.delete { read.len() as u64 } else { 0 };
        }
        let mut messages = Vec::with_capacity(read.len());
        for (sequence, stored) in read {
            budget.spend(stored.payload.len(), cx.out);
            let lock = if request.delete {
                self.state.messages.entities.discard(cx, queue, sequence.0);
                None
            } else {
                self.lock_deferred(cx.now, queue, sequence)
            };
            messages.push(Fetched { sequence, lock, stored });
        }
        Ok(Answer::Whole(messages))
    }

    /// In an entity with sessions only the holder of a session takes that session's messages.
    fn fetching_session(
        &mut self,
        now: Timestamp,
        client: ClientId,
        queue: QueueId,
        request: &FetchRequest,
    ) -> Result<Option<SessionNumber>, EntityError> {
        if self.state.store(queue).is_none_or(|store| store.sessions.is_none()) {
            return Ok(None);
        }
        let required = || EntityError::SessionRequired(request.path.entity.clone());
        let session = request.session.as_deref().ok_or_else(required)?;
        match SessionRequests::of(self.state).held_session(now, client, &request.path, session) {
            Ok((_, number)) => Ok(Some(number)),
            Err(_) => Err(EntityError::SessionLockLost),
        }
    }

    /// A lock that is over may end with a dead letter, which is read for that. Says which read has to be done before.
    fn ask_for_overdue(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequences: &[SequenceNumber],
    ) -> Option<ReadId> {
        let mut reads = sequences.iter().filter_map(|sequence| {
            let slot = self.state.store(queue).and_then(|store| store.slots.get(sequence.0));
            slot.filter(|slot| slot.is_lock_over(cx.now))?;
            Disposer::of(&mut self.state.messages)
                .becomes_dead_letter(cx.now, queue, sequence.0, true)
                .then(|| self.state.messages.entities.ask_for_message(queue, sequence.0, cx.out))?
        });
        reads.next()
    }

    /// Locks that are over may not have been noticed yet. Says whether one was ended.
    fn end_overdue_locks(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        sequences: &[SequenceNumber],
    ) -> bool {
        let mut ended = false;
        for sequence in sequences {
            let slot = self.state.store(queue).and_then(|store| store.slots.get(sequence.0));
            if slot.is_some_and(|slot| slot.is_lock_over(cx.now)) {
                Disposer::of(&mut self.state.messages).return_message(
                    cx,
                    queue,
                    sequence.0,
                    true,
                    PropertyPatch::default(),
                );
                ended = true;
            }
        }
        ended
    }

    /// Finds and reads all that is asked for, in the order in which it is asked for. What is at hand before all of it is, the
    /// request keeps.
    fn read_deferred(
        &mut self,
        queue: QueueId,
        session: Option<SessionNumber>,
        request: &mut FetchRequest,
        disk: DiskAccess,
        out: &mut impl Output,
    ) -> Result<Answer<Vec<(SequenceNumber, Stored)>>, EntityError> {
        let entity = &request.path.entity;
        let missing = || EntityError::NotFound(entity.clone());
        let (store, bodies) =
            with_bodies(&mut self.state.messages.entities.stores, queue).ok_or_else(missing)?;
        let mut seen = BTreeSet::new();
        let mut slots = Vec::with_capacity(request.sequences.len());
        for sequence in request.sequences.iter().copied().filter(|sequence| seen.insert(*sequence)) {
            let slot = store
                .slots
                .get(sequence.0)
                .copied()
                .filter(|slot| slot.state == State::Deferred && !slot.is_locked() && !slot.is_damaged())
                .filter(|slot| session.is_none_or(|session| session == slot.session()));
            let not_found = || EntityError::MessageNotFound { entity: entity.clone(), sequence };
            slots.push((sequence, slot.ok_or_else(not_found)?));
        }
        let body = |sequence: &SequenceNumber| {
            let body = store.body_refs.get(sequence.0)?;
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
        let (mut pending, mut asked) = (None, 0);
        for (sequence, slot) in slots {
            if let Some((_, kept)) = request.kept.remove(&sequence).filter(|(at, _)| *at == slot.position) {
                messages.push((sequence, slot.position, kept.with_state_of(&slot)));
                continue;
            }
            if asked == READS_MAX {
                continue;
            }
            match read_stored(store, sequence.0, &slot, bodies.as_deref(), disk, out) {
                Ok(stored) => messages.push((sequence, slot.position, stored)),
                // Others are asked for as well.
                Err(Unread::Pending(read)) => (pending, asked) = (Some(read), asked + 1),
                Err(Unread::Damaged(_)) => {
                    store.set_damaged(sequence.0);
                    return Err(EntityError::Storage);
                }
            }
        }
        let Some(read) = pending else {
            return Ok(Answer::Whole(
                messages.into_iter().map(|(number, _, stored)| (number, stored)).collect(),
            ));
        };
        request
            .kept
            .extend(messages.into_iter().map(|(number, at, stored)| (number, (at, stored.detached()))));
        Ok(Answer::Disk(read))
    }

    fn lock_deferred(&mut self, now: Timestamp, queue: QueueId, sequence: SequenceNumber) -> Option<Lock> {
        let store = self.state.messages.entities.stores.get_mut(&queue)?;
        let id = LockId(self.state.next_lock);
        self.state.next_lock = self.state.next_lock.wrapping_add(1);
        let until = if store.sessions.is_some() {
            store.lock_in_session(sequence.0, id)
        } else {
            let until = now.after(store.lock_duration);
            store.lock(sequence.0, id, NOBODY, until);
            until
        };
        self.state.messages.entities.agenda.arm(store);
        Some(Lock { id, token: self.state.messages.tokens.seal(queue, id, sequence), until })
    }
}

/// Reads of the disk that one request asks for at once; more would not find room.
const READS_MAX: usize = 16;
