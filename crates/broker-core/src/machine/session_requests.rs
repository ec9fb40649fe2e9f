//! What the holder of a session may ask about it, and what anybody may: renewal, state, listing
//! (`service-bus-entities` 10).
//!
//! Invariant: a state is read and written under the session's lock only, by the client that has it. It lies in the
//! journal; memory keeps the bytes of those alone that this same call has written.

use bytes::Bytes;

use super::{Core, status::Use};
use crate::{
    ClientId, Effect, EntityPath, NoRoom, Output, QueueId, SessionError, Ticket, Timestamp,
    merge::Answer,
    record::{encode_session_state, session_state_of},
    sessions::{Session, SessionNumber, SessionState, Sessions},
    slot::State,
    store::Store,
};

/// Most ids in one answer.
const LISTED_MAX: u32 = 4_096;

impl Core {
    /// The session that a client holds.
    pub(super) fn held_session(
        &self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        id: &str,
    ) -> Result<(QueueId, SessionNumber), SessionError> {
        let (queue, _, sessions) = self.asked_sessions(path)?;
        let number = sessions.find(id).ok_or(SessionError::LockLost)?;
        let holder = sessions.get(number).and_then(|session| session.holder(now));
        let consumer = holder.and_then(|holder| self.consumers.get(&holder.consumer?));
        if consumer.is_some_and(|consumer| consumer.client == client) {
            Ok((queue, number))
        } else {
            Err(SessionError::LockLost)
        }
    }

    /// The sessions of an entity that may be received from, with the store that they are of.
    fn asked_sessions(&self, path: &EntityPath) -> Result<(QueueId, &Store, &Sessions), SessionError> {
        let missing = || SessionError::NotFound(path.entity.clone());
        let queue = self.resolve(path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive).map_err(|_| SessionError::Disabled(path.entity.clone()))?;
        let store = self.stores.get(&queue).ok_or_else(missing)?;
        let sessions = store.sessions.as_deref();
        Ok((queue, store, sessions.ok_or_else(|| SessionError::NoSessions(path.entity.clone()))?))
    }

    pub(super) fn renew_session(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        id: &str,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self.held_session(now, client, path, id) {
            Err(error) => Effect::SessionRefused { ticket, error },
            Ok((queue, number)) => {
                let until = self.extend_session(now, queue, number);
                Effect::SessionRenewed { ticket, until }
            }
        };
        self.merge.effect(client, effect, out);
    }

    fn extend_session(&mut self, now: Timestamp, queue: QueueId, number: SessionNumber) -> Timestamp {
        let Some(store) = self.stores.get_mut(&queue) else { return now };
        let until = now.after(store.lock_duration);
        if let Some(sessions) = &mut store.sessions {
            sessions.renew(number, until);
        }
        store.arm(&mut self.timers);
        until
    }

    pub(super) fn set_session_state(
        &mut self,
        now: Timestamp,
        client: ClientId,
        (path, id): (&EntityPath, &str),
        state: Option<Bytes>,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        match self.try_set_session_state(now, client, (path, id), state, out) {
            Ok(()) => self.merge.answer(client, Answer::Settled, ticket, out),
            Err(error) => self.merge.effect(client, Effect::SessionRefused { ticket, error }, out),
        }
    }

    fn try_set_session_state(
        &mut self,
        now: Timestamp,
        client: ClientId,
        (path, id): (&EntityPath, &str),
        state: Option<Bytes>,
        out: &mut impl Output,
    ) -> Result<(), SessionError> {
        let (queue, number) = self.check_session_state(now, client, (path, id), state.as_ref(), out)?;
        self.store_session_state(now, (queue, number, id), state, out);
        Ok(())
    }

    /// The session that a client holds and may give this state.
    pub(super) fn check_session_state(
        &self,
        now: Timestamp,
        client: ClientId,
        (path, id): (&EntityPath, &str),
        state: Option<&Bytes>,
        out: &impl Output,
    ) -> Result<(QueueId, SessionNumber), SessionError> {
        let (queue, number) = self.held_session(now, client, path, id)?;
        if let Some(state) = state {
            self.check_state_size(queue, number, state.len() as u64, out)?;
        }
        Ok((queue, number))
    }

    /// Does what was checked.
    pub(super) fn store_session_state(
        &mut self,
        now: Timestamp,
        (queue, number, id): (QueueId, SessionNumber, &str),
        state: Option<Bytes>,
        out: &mut impl Output,
    ) {
        let Some(store) = self.stores.get_mut(&queue) else { return };
        let had_one = store.session(number).is_some_and(|session| session.state().is_some());
        if state.is_none() && !had_one {
            return;
        }
        let index = encode_session_state(queue, id, now, state.is_some());
        let (position, length) = out.record(&index, &[state.as_deref().unwrap_or_default()]);
        if state.is_none() {
            // Like a removal, it outlives all that it speaks of.
            out.release(position, length);
        }
        let new = state.as_ref().map(|_| SessionState { position, length, updated_at: now });
        if let Some(before) = store.set_session_state(number, new) {
            out.release(before.position, before.length);
        }
        match state {
            Some(state) => self.fresh_states.insert((queue, number.0), state),
            None => self.fresh_states.remove(&(queue, number.0)),
        };
    }

    fn check_state_size(
        &self,
        queue: QueueId,
        number: SessionNumber,
        bytes: u64,
        out: &impl Output,
    ) -> Result<(), SessionError> {
        let Some(entity) = self.main_of(queue) else { return Ok(()) };
        let settings = &entity.definition.settings;
        let limit = self.max_message_bytes(settings);
        if bytes > limit {
            return Err(SessionError::StateTooLarge { bytes, limit });
        }
        if out.storage_full() {
            return Err(NoRoom::Storage.into());
        }
        let Some(limit) = settings.max_size_bytes else { return Ok(()) };
        let before = self.stores.get(&queue).and_then(|store| store.session(number)?.state());
        let before = before.map_or(0, |state| u64::from(state.length));
        Ok(self.check_size(queue, limit, bytes, before)?)
    }

    pub(super) fn get_session_state(
        &mut self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        id: &str,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let found = self.held_session(now, client, path, id);
        let effect = match found.and_then(|(queue, number)| self.read_session_state(queue, number, out)) {
            Ok(state) => Effect::SessionState { ticket, state },
            Err(error) => Effect::SessionRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    fn read_session_state(
        &self,
        queue: QueueId,
        number: SessionNumber,
        out: &mut impl Output,
    ) -> Result<Option<Bytes>, SessionError> {
        if let Some(state) = self.fresh_states.get(&(queue, number.0)) {
            return Ok(Some(state.clone()));
        }
        let session = self.stores.get(&queue).and_then(|store| store.session(number));
        let Some(session) = session else { return Ok(None) };
        let Some(state) = session.state() else { return Ok(None) };
        let record = out.read(state.position, state.length).map_err(|_| SessionError::Storage)?;
        session_state_of(record, queue, session.id()).map(Some).ok_or(SessionError::Storage)
    }

    /// Ids of the sessions that have an active message or a state, or of those whose state was set after
    /// `updated_after`.
    pub(super) fn list_sessions(
        &mut self,
        client: ClientId,
        path: &EntityPath,
        updated_after: Option<Timestamp>,
        (skip, top): (u32, u32),
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let listed = self.asked_sessions(path).map(|(_, store, sessions)| {
            let listed = sessions.iter().filter(|session| is_listed(store, session, updated_after));
            let listed = listed.skip(skip as usize).take(top.min(LISTED_MAX) as usize);
            listed.map(|session| Box::from(&**session.id())).collect()
        });
        let effect = match listed {
            Ok(ids) => Effect::SessionList { ticket, skip, ids },
            Err(error) => Effect::SessionRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    /// Forgets what the last call has written: it can be read by now.
    pub(super) fn begin_states(&mut self) {
        if !self.fresh_states.is_empty() {
            self.fresh_states.clear();
        }
    }
}

fn is_listed(store: &Store, session: &Session, updated_after: Option<Timestamp>) -> bool {
    let updated = session.state().map(|state| state.updated_at);
    match updated_after {
        Some(after) => updated.is_some_and(|at| at > after),
        None => updated.is_some() || session.first_ready().is_some() || has_active_delivery(store, session),
    }
}

fn has_active_delivery(store: &Store, session: &Session) -> bool {
    let mut delivered = session.delivered().filter_map(|sequence| store.slots.get(sequence));
    delivered.any(|slot| slot.state == State::Active)
}
