//! Sessions are accepted, renewed and lost (`service-bus-entities` 10).
//!
//! Invariant: a session has one holder at most, and the next one gets it only when every message that the last one
//! had is back. A lock is checked to the millisecond, whether or not its deadline has been treated.

use std::time::Duration;

use super::{Core, pump::TURN, wake};
use crate::{
    AttachError, ClientId, Effect, EntityPath, LinkId, LockId, Output, QueueId, ReceiveMode, SessionGrant,
    SessionWanted, SubQueue, Timestamp, UnsettledPolicy,
    client::{Consumer, Link, Place, Standing},
    partition::Onward,
    sessions::{Acceptor, Hold, Holder, Session, SessionNumber},
    slot::ConsumerNumber,
};

/// Longest id of a session, in characters (`service-bus-entities` 4).
pub(super) const SESSION_ID_CHARS_MAX: usize = 128;

/// Whether an id is longer than a session's may be; says by how much.
pub(super) fn check_session_id(id: &str) -> Result<(), usize> {
    // Shorter texts need no counting.
    let chars = if id.len() <= SESSION_ID_CHARS_MAX { 0 } else { id.chars().count() };
    if chars > SESSION_ID_CHARS_MAX { Err(chars) } else { Ok(()) }
}

impl Core {
    /// Whether a store is received from by session exactly if it has sessions. Looking at copies needs none.
    pub(super) fn check_session_use(
        &self,
        queue: QueueId,
        path: &EntityPath,
        mode: ReceiveMode,
        wanted: Option<&SessionWanted>,
    ) -> Result<(), AttachError> {
        let has_sessions = self.stores.get(&queue).is_some_and(|store| store.sessions.is_some());
        match wanted {
            None if has_sessions && mode != ReceiveMode::Browse => {
                Err(AttachError::SessionRequired(path.entity.clone()))
            }
            Some(_) if path.sub_queue != SubQueue::Main => {
                Err(AttachError::SubQueueSession(path.entity.clone()))
            }
            Some(_) if !has_sessions || mode == ReceiveMode::Browse => {
                Err(AttachError::NoSessions(path.entity.clone()))
            }
            Some(SessionWanted::Named(id)) => check_session_id(id).map_err(|chars| {
                AttachError::SessionIdTooLong { chars: chars as u64, limit: SESSION_ID_CHARS_MAX as u64 }
            }),
            _ => Ok(()),
        }
    }

    /// Gives a new link the session that it wants, or lets it wait for any.
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn open_in_session(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        queue: QueueId,
        mode: ReceiveMode,
        wanted: SessionWanted,
        out: &mut impl Output,
    ) {
        if !self.clients.contains_key(&client) {
            return;
        }
        let patience = match &wanted {
            SessionWanted::Named(_) => Duration::ZERO,
            SessionWanted::Next { patience } => *patience,
        };
        let deadline = now.after(patience);
        let acceptor = Acceptor { client, link, mode, deadline, limit: 0, drain: false };
        match wanted {
            SessionWanted::Named(id) => self.accept_named(now, queue, id, &acceptor, out),
            SessionWanted::Next { .. } => self.accept_next(now, queue, acceptor, out),
        }
    }

    fn accept_named(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        id: Box<str>,
        acceptor: &Acceptor,
        out: &mut impl Output,
    ) {
        self.end_lapsed(now, queue, &id, out);
        let Some(sessions) = self.stores.get_mut(&queue).and_then(|store| store.sessions.as_mut()) else {
            return;
        };
        let number = sessions.enter(&id);
        if sessions.get(number).is_some_and(|session| session.hold() == Hold::Free) {
            return self.grant(now, queue, number, acceptor, out);
        }
        let (link, error) = (acceptor.link, AttachError::SessionLocked(id));
        self.merge.effect(acceptor.client, Effect::AttachRefused { link, error }, out);
    }

    /// A named session whose lock has ended unnoticed is free.
    fn end_lapsed(&mut self, now: Timestamp, queue: QueueId, id: &str, out: &mut impl Output) {
        let Some(sessions) = self.stores.get(&queue).and_then(|store| store.sessions.as_ref()) else {
            return;
        };
        let Some(number) = sessions.find(id) else { return };
        let hold = sessions.get(number).map(Session::hold);
        if matches!(hold, Some(Hold::Held(holder)) if now >= holder.until) {
            self.leaving.left = self.lose_session(now, queue, number, self.leaving.left, out);
            self.rearm(queue);
        }
    }

    fn accept_next(&mut self, now: Timestamp, queue: QueueId, acceptor: Acceptor, out: &mut impl Output) {
        let (client, link) = (acceptor.client, acceptor.link);
        let Some(store) = self.stores.get_mut(&queue) else { return };
        store.touched_at = now;
        let Some(sessions) = store.sessions.as_mut() else { return };
        let number = sessions.acceptors.push(acceptor);
        store.links.insert((client, link));
        store.consumers += 1;
        if let Some(client) = self.clients.get_mut(&client) {
            client.links.insert(link, Link::Acceptor { queue, number });
        }
        self.serve_acceptors(now, queue, out);
        // Without patience there is no waiting for the deadline.
        self.refuse_impatient(now, queue, u32::MAX, out);
        self.rearm(queue);
    }

    /// Gives available sessions to those who wait for one. Bounded; what is left is left to the next pump.
    pub(super) fn serve_acceptors(&mut self, now: Timestamp, queue: QueueId, out: &mut impl Output) {
        for _ in 0..TURN {
            let Some(store) = self.stores.get_mut(&queue) else { return };
            let is_dead_letter = store.is_dead_letter();
            let Some(sessions) = store.sessions.as_mut().filter(|sessions| !sessions.acceptors.is_empty())
            else {
                return;
            };
            let Some((number, sequence)) = sessions.next_available() else { return };
            if store.slots.get(sequence).is_none_or(|slot| Self::is_over(slot, is_dead_letter, now)) {
                store.set_aside(sequence);
                continue;
            }
            let Some(acceptor) = sessions.acceptors.pop_first() else { return };
            store.consumers -= 1;
            self.grant(now, queue, number, &acceptor, out);
        }
        if let Some(store) = self.stores.get_mut(&queue) {
            wake(store, &mut self.active);
        }
    }

    /// A free session gets a holder.
    fn grant(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        session: SessionNumber,
        acceptor: &Acceptor,
        out: &mut impl Output,
    ) {
        let &Acceptor { client, link, mode, limit, drain, .. } = acceptor;
        let Some(info) = self.info(queue) else { return };
        let number = ConsumerNumber(self.next_consumer);
        self.next_consumer = self.next_consumer.wrapping_add(1);
        let Some(store) = self.stores.get_mut(&queue) else { return };
        store.touched_at = now;
        let until = now.after(store.lock_duration);
        let Some(sessions) = store.sessions.as_mut() else { return };
        let since = LockId(self.next_lock);
        let accepted = sessions.accept(session, Holder { consumer: Some(number), until, since });
        let Some(id) = sessions.get(session).filter(|_| accepted).map(Session::id) else { return };
        let id = Box::from(&**id);
        store.links.insert((client, link));
        store.consumers += 1;
        if drain {
            store.draining.push(number);
        }
        let consumer = Consumer {
            client,
            link,
            queue,
            mode,
            unsettled: UnsettledPolicy::Release,
            limit,
            count: 0,
            drain,
            is_listed: drain,
            place: Place::Idle,
            took_locks: false,
            browsed: Onward::default(),
            selection: None,
            standing: Standing::Guest,
            session: Some(session),
        };
        self.consumers.insert(number, consumer);
        if let Some(client) = self.clients.get_mut(&client) {
            client.links.insert(link, Link::Consumer { number });
        }
        wake(store, &mut self.active);
        store.arm(&mut self.timers);
        let session = Some(SessionGrant { id, until });
        self.merge.effect(client, Effect::ConsumerOpened { consumer: link, queue: info, session }, out);
    }

    /// The holder gives a session up: its messages return uncounted, unless its time was over already.
    pub(super) fn release_session(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        number: SessionNumber,
        out: &mut impl Output,
    ) {
        let sessions = self.stores.get(&queue).and_then(|store| store.sessions.as_ref());
        let holder = sessions.and_then(|sessions| sessions.get(number)).and_then(|it| it.holder(now));
        let fail = holder.is_none();
        self.leaving.left = self.end_session(now, queue, number, fail, self.leaving.left, out);
    }

    /// The holder's client is lost: the lock runs on (`service-bus-entities` 10).
    pub(super) fn lose_holder(&mut self, queue: QueueId, number: SessionNumber) {
        if let Some(sessions) = self.stores.get_mut(&queue).and_then(|store| store.sessions.as_mut()) {
            sessions.lose_holder(number);
        }
    }

    /// A session's lock has ended by itself: its holder is told and its messages return as failed.
    fn lose_session(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        number: SessionNumber,
        left: u32,
        out: &mut impl Output,
    ) -> u32 {
        let sessions = self.stores.get(&queue).and_then(|store| store.sessions.as_ref());
        let hold = sessions.and_then(|sessions| sessions.get(number)).map(Session::hold);
        let Some(Hold::Held(holder)) = hold else { return left };
        self.was_used_until(queue, holder.until);
        let consumer = holder.consumer.and_then(|number| self.consumers.get(&number));
        if let Some((client, link)) = consumer.map(|consumer| (consumer.client, consumer.link)) {
            let state = self.clients.get_mut(&client).and_then(|client| client.links.remove(&link));
            if let Some(state) = state {
                let _ended_below = self.detach(client, link, state);
            }
            self.merge.effect(client, Effect::SessionLost { consumer: link }, out);
        }
        self.end_session(now, queue, number, true, left, out)
    }

    /// Ends a lock and returns the messages, until `left` is used up; says how much of that is left. The rest goes on
    /// at the next deadline, and the session stays unavailable until then.
    fn end_session(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        number: SessionNumber,
        fail: bool,
        left: u32,
        out: &mut impl Output,
    ) -> u32 {
        let Some(store) = self.stores.get_mut(&queue) else { return left };
        let Some(session) = store.session(number) else { return left };
        for sequence in session.delivered() {
            if let Some(slot) = store.slots.get(sequence) {
                self.leaving.lose(queue, sequence, slot.lock, fail);
            }
        }
        if let Some(sessions) = &mut store.sessions {
            sessions.end(number);
        }
        wake(store, &mut self.active);
        self.work_off_leaving(now, left, out)
    }

    /// Ends what has lasted long enough: locks, and waiting for one. Says how much of `left` is left.
    pub(super) fn run_sessions(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        mut left: u32,
        out: &mut impl Output,
    ) -> u32 {
        while left > 0 {
            let sessions = self.stores.get(&queue).and_then(|store| store.sessions.as_ref());
            let Some(number) = sessions.and_then(|sessions| sessions.first_ended(now)) else { break };
            left = self.lose_session(now, queue, number, left, out).saturating_sub(1);
        }
        self.refuse_impatient(now, queue, left, out)
    }

    fn refuse_impatient(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        mut left: u32,
        out: &mut impl Output,
    ) -> u32 {
        while left > 0
            && let Some(store) = self.stores.get_mut(&queue)
            && let Some(sessions) = store.sessions.as_mut()
            && let Some(Acceptor { client, link, .. }) = sessions.acceptors.pop_impatient(now)
        {
            store.touched_at = now;
            store.links.remove(&(client, link));
            store.consumers -= 1;
            if let Some(client) = self.clients.get_mut(&client) {
                client.links.remove(&link);
            }
            let error = AttachError::SessionTimeout;
            self.merge.effect(client, Effect::AttachRefused { link, error }, out);
            left -= 1;
        }
        left
    }
}
