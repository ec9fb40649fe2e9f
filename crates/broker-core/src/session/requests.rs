//! Requests about sessions: renewal and state by the holder, listing and peeking by anybody
//! (`docs/features/sessions.md`).
//!
//! Invariant: a state is read and written under the session's lock only, by the client that has it. It lies in the
//! journal; memory keeps the bytes of those alone that this same call has written.

use bytes::Bytes;

use crate::{
    ClientId, Effect, EntityPath, LimitScope, Output, QueueId, QuotaError, SessionError, Ticket, Timestamp,
    Work,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    output_coalescer::Answer,
    publish::checks::PublishChecks,
    record::{encode_session_state, session_state_length, session_state_of},
    store::{
        Store,
        sessions::{Session, SessionNumber, SessionState, Sessions},
        slot::{Slot, State},
        slots::Slots,
    },
};

/// Most ids in one answer.
const LISTED_MAX: u32 = 4_096;

/// Answers requests about sessions.
#[derive(Debug)]
pub(crate) struct SessionRequests<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> SessionRequests<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl SessionRequests<'_> {
    /// The session that a client holds.
    pub(crate) fn held_session(
        &self,
        now: Timestamp,
        client: ClientId,
        path: &EntityPath,
        id: &str,
    ) -> Result<(QueueId, SessionNumber), SessionError> {
        let (queue, _, sessions) = self.asked_sessions(path)?;
        let number = sessions.find(id).ok_or(SessionError::LockLost)?;
        let holder = sessions.get(number).and_then(|session| session.holder(now));
        let consumer = holder.and_then(|holder| self.state.links.consumers.get(&holder.consumer?));
        if consumer.is_some_and(|consumer| consumer.client == client) {
            Ok((queue, number))
        } else {
            Err(SessionError::LockLost)
        }
    }

    /// The sessions of an entity that may be received from, with the store that they are of.
    fn asked_sessions(&self, path: &EntityPath) -> Result<(QueueId, &Store, &Sessions), SessionError> {
        let missing = || SessionError::NotFound(path.entity.clone());
        let queue = self.state.resolve(path).ok_or_else(missing)?;
        self.state
            .messages
            .entities
            .check_use(queue, Use::Receive)
            .map_err(|_| SessionError::Disabled(path.entity.clone()))?;
        let store = self.state.store(queue).ok_or_else(missing)?;
        let sessions = store.sessions.as_deref();
        Ok((queue, store, sessions.ok_or_else(|| SessionError::NoSessions(path.entity.clone()))?))
    }

    pub(crate) fn renew_session(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        id: &str,
        ticket: Ticket,
    ) {
        let effect = match self.held_session(cx.now, cx.client, path, id) {
            Err(error) => Effect::SessionRefused { ticket, error },
            Ok((queue, number)) => {
                let until = self.extend_session(cx.now, queue, number);
                Effect::SessionRenewed { ticket, until }
            }
        };
        cx.reply(effect);
    }

    fn extend_session(&mut self, now: Timestamp, queue: QueueId, number: SessionNumber) -> Timestamp {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return now };
        let until = now.after(store.lock_duration);
        if let Some(sessions) = &mut store.sessions {
            sessions.renew(number, until);
        }
        self.state.messages.entities.agenda.arm(store);
        until
    }

    pub(crate) fn set_session_state(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        id: &str,
        state: Option<Bytes>,
        ticket: Ticket,
    ) {
        match self.try_set_session_state(cx, path, id, state) {
            Ok(()) => cx.answer(Answer::Settled, ticket),
            Err(error) => cx.reply(Effect::SessionRefused { ticket, error }),
        }
    }

    fn try_set_session_state(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        id: &str,
        state: Option<Bytes>,
    ) -> Result<(), SessionError> {
        let (queue, number) = self.check_session_state(cx, path, id, state.as_ref())?;
        self.store_session_state(cx, queue, number, id, state);
        Ok(())
    }

    /// The session that a client holds and may give this state.
    pub(crate) fn check_session_state(
        &self,
        cx: &Cx<'_, impl Output>,
        path: &EntityPath,
        id: &str,
        state: Option<&Bytes>,
    ) -> Result<(QueueId, SessionNumber), SessionError> {
        let (queue, number) = self.held_session(cx.now, cx.client, path, id)?;
        if let Some(state) = state {
            self.check_state_size((queue, number, id), state.len() as u64, cx.out)?;
        }
        Ok((queue, number))
    }

    /// Does what was checked.
    pub(crate) fn store_session_state(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        number: SessionNumber,
        id: &str,
        state: Option<Bytes>,
    ) {
        let Some(store) = self.state.store_mut(queue) else { return };
        let had_one = store.session(number).is_some_and(|session| session.state().is_some());
        if state.is_none() && !had_one {
            return;
        }
        let index = encode_session_state(queue, id, cx.now, state.is_some());
        let (position, length) = cx.out.record(&index, &[state.as_deref().unwrap_or_default()]);
        if state.is_none() {
            // Like a removal, it outlives all that it speaks of.
            cx.out.release(position, length);
        }
        let new = state.as_ref().map(|_| SessionState { position, length, updated_at: cx.now });
        if let Some(before) = store.set_session_state(number, new) {
            cx.out.release(before.position, before.length);
        }
        match state {
            Some(state) => cx.new_states.insert((queue, number.0), state),
            None => cx.new_states.remove(&(queue, number.0)),
        };
    }

    fn check_state_size(
        &self,
        (queue, number, id): (QueueId, SessionNumber, &str),
        bytes: u64,
        out: &impl Output,
    ) -> Result<(), SessionError> {
        let Some(entity) = self.state.main_of(queue) else { return Ok(()) };
        let settings = &entity.definition.settings;
        let limit = self.state.messages.max_message_bytes(settings, LimitScope::Tier);
        if bytes > limit {
            return Err(SessionError::StateTooLarge { bytes, limit });
        }
        let before = self.state.store(queue).and_then(|store| store.session(number)?.state());
        let before = before.map(|state| u64::from(state.length));
        match out.check_storage() {
            // It takes the place of one whose record is at least as large.
            Err(QuotaError::Namespace { .. })
                if before.is_some_and(|before| session_state_length(id, bytes) <= before) => {}
            checked => checked?,
        }
        let Some(limit) = settings.max_size_bytes else { return Ok(()) };
        let before = before.unwrap_or(0);
        Ok(PublishChecks::of(&self.state.messages).check_size(queue, limit, bytes, before)?)
    }

    pub(crate) fn get_session_state(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        (id, looks_on): (&str, bool),
        ticket: Ticket,
    ) {
        let found = if looks_on {
            self.asked_sessions(path).map(|(queue, _, sessions)| Some((queue, sessions.find(id)?)))
        } else {
            self.held_session(cx.now, cx.client, path, id).map(Some)
        };
        let read = found.and_then(|session| match session {
            Some((queue, number)) => self.read_session_state(cx, queue, number),
            None => Ok(None),
        });
        let effect = match read {
            Ok(state) => Effect::SessionState { ticket, state },
            Err(error) => Effect::SessionRefused { ticket, error },
        };
        cx.reply(effect);
    }

    fn read_session_state(
        &self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        number: SessionNumber,
    ) -> Result<Option<Bytes>, SessionError> {
        if let Some(state) = cx.new_states.get(&(queue, number.0)) {
            return Ok(Some(state.clone()));
        }
        let session = self.state.store(queue).and_then(|store| store.session(number));
        let Some(session) = session else { return Ok(None) };
        let Some(state) = session.state() else { return Ok(None) };
        let record = cx.out.read(state.position, state.length).map_err(|_| SessionError::Storage)?;
        session_state_of(record, queue, session.id()).map(Some).ok_or(SessionError::Storage)
    }

    /// Ids of the sessions that have an active message or a state, or of those whose state was set after
    /// `updated_after`; by id, those behind the id `after`, if there is one.
    pub(crate) fn list_sessions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        updated_after: Option<Timestamp>,
        after: Option<&str>,
        (skip, top): (u32, u32),
        ticket: Ticket,
    ) {
        let asked = self.asked_sessions(path).map(|(queue, ..)| queue);
        let effect = match asked {
            Ok(queue) => {
                let ids = self.listed(cx, queue, updated_after, after, (skip, top));
                Effect::SessionList { ticket, skip, ids }
            }
            Err(error) => Effect::SessionRefused { ticket, error },
        };
        cx.reply(effect);
    }

    fn listed(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        updated_after: Option<Timestamp>,
        after: Option<&str>,
        (skip, top): (u32, u32),
    ) -> Vec<Box<str>> {
        let Some(Store { sessions: Some(sessions), slots, .. }) = self.state.store_mut(queue) else {
            return Vec::new();
        };
        let bounds = (skip as usize, top.min(LISTED_MAX) as usize);
        let mut messages = 0;
        let (visited, page) =
            sessions.page(after, bounds, |session| is_listed(slots, session, updated_after, &mut messages));
        let ids: Vec<Box<str>> = page.into_iter().map(|session| Box::from(&**session.id())).collect();
        cx.out.charge(Work::LIST_ENTRY.times(ids.len() as u64) + Work::SLOT.times(visited + messages));
        ids
    }
}

/// Whether a list has a session. Adds the messages that are looked at to `messages`.
fn is_listed(
    slots: &Slots<Slot>,
    session: &Session,
    updated_after: Option<Timestamp>,
    messages: &mut u64,
) -> bool {
    let updated = session.state().map(|state| state.updated_at);
    if let Some(after) = updated_after {
        return updated.is_some_and(|at| at > after);
    }
    let mut is_active = |sequence| {
        *messages += 1;
        slots.get(sequence).is_some_and(|slot| slot.state == State::Active)
    };
    updated.is_some() || session.first_ready().is_some() || session.delivered().any(&mut is_active)
}
