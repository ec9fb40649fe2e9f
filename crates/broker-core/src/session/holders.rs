//! Session locks are granted, renewed and lost (`docs/features/sessions.md`).
//!
//! Invariant: a session has one holder at most, and the next one gets it only when every message that the last one
//! had is back. A lock is checked to the millisecond, whether or not its deadline has been handled.

use std::time::Duration;

use crate::{
    AttachError, Effect, EntityPath, LinkId, LockId, LockRef, Output, QueueId, ReceiveMode, SessionGrant,
    SessionWanted, SubQueue, Timestamp, UnsettledPolicy, Work,
    call::Cx,
    deliver::budget::ROUND_MESSAGES_MAX,
    link::client::{Consumer, Link, SubscriptionRole, WaitState},
    namespace::Namespace,
    settle::lock_release::LockReleases,
    store::{
        partition::SequenceCursor,
        session_id::{SESSION_ID_CHARS_MAX, check_session_id},
        sessions::{Acceptor, Holder, Session, SessionLock, SessionNumber},
        slot::Slot,
    },
};

/// Gives sessions to receivers, and takes them back.
#[derive(Debug)]
pub(crate) struct SessionHolders<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> SessionHolders<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl SessionHolders<'_> {
    /// Whether a store is received from by session exactly if it has sessions. Looking at copies needs none.
    pub(crate) fn check_session_use(
        &self,
        queue: QueueId,
        path: &EntityPath,
        mode: ReceiveMode,
        wanted: Option<&SessionWanted>,
    ) -> Result<(), AttachError> {
        let has_sessions = self.state.store(queue).is_some_and(|store| store.sessions.is_some());
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
    pub(crate) fn open_in_session(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        queue: QueueId,
        mode: ReceiveMode,
        wanted: SessionWanted,
    ) {
        if !self.state.links.clients.contains_key(&cx.client) {
            return;
        }
        let patience = match &wanted {
            SessionWanted::Named(_) => Duration::ZERO,
            SessionWanted::Next { patience } => *patience,
        };
        let deadline = cx.now.after(patience);
        let acceptor = Acceptor { client: cx.client, link, mode, deadline, limit: 0, drain: false };
        match wanted {
            SessionWanted::Named(id) => self.accept_named(cx, queue, id, &acceptor),
            SessionWanted::Next { .. } => self.accept_next(cx, queue, acceptor),
        }
    }

    fn accept_named(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        id: Box<str>,
        acceptor: &Acceptor,
    ) {
        self.end_lapsed(cx, queue, &id);
        let Some(sessions) = self.state.store_mut(queue).and_then(|store| store.sessions.as_mut()) else {
            return;
        };
        let number = sessions.get_or_create(&id);
        if sessions.get(number).is_some_and(|session| session.lock() == SessionLock::Free) {
            return self.grant(cx, queue, number, acceptor, Some(id));
        }
        let (link, error) = (acceptor.link, AttachError::SessionLocked(id));
        cx.tell(acceptor.client, Effect::AttachRefused { link, error });
    }

    /// A named session whose lock has ended unnoticed is free.
    fn end_lapsed(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, id: &str) {
        let Some(sessions) = self.state.store(queue).and_then(|store| store.sessions.as_ref()) else {
            return;
        };
        if let Some(number) = sessions.find(id) {
            self.end_if_lapsed(cx, queue, number);
        }
    }

    /// The session of a message, whose lock may have ended unnoticed: its holder is detached.
    pub(crate) fn end_lapsed_of(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, sequence: u64) {
        let slot = self.state.store(queue).and_then(|store| store.slots.get(sequence));
        if let Some(number) = slot.map(Slot::session) {
            self.end_if_lapsed(cx, queue, number);
        }
    }

    fn end_if_lapsed(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, number: SessionNumber) {
        let sessions = self.state.store(queue).and_then(|store| store.sessions.as_ref());
        let lock = sessions.and_then(|sessions| sessions.get(number)).map(Session::lock);
        if matches!(lock, Some(SessionLock::Held(holder)) if cx.now >= holder.until) {
            let room = cx.release_room();
            let left = self.lose_session(cx, queue, number, room);
            cx.use_room(room, left);
            self.state.messages.entities.rearm(queue);
        }
    }

    pub(crate) fn accept_next(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, acceptor: Acceptor) {
        let (client, link) = (acceptor.client, acceptor.link);
        let Some(store) = self.state.store_mut(queue) else { return };
        store.touched_at = cx.now;
        let Some(sessions) = store.sessions.as_mut() else { return };
        let number = sessions.acceptors.push(acceptor);
        store.links.attached.insert((client, link));
        store.links.consumers += 1;
        if let Some(client) = self.state.links.clients.get_mut(&client) {
            client.links.insert(link, Link::Acceptor { queue, number });
        }
        self.serve_acceptors(cx, queue);
        // Without patience there is no waiting for the deadline.
        self.refuse_impatient(cx, queue, u32::MAX);
        self.state.messages.entities.rearm(queue);
    }

    /// Grants available sessions to waiting acceptors. Bounded; the rest is granted by the next `deliver`.
    pub(crate) fn serve_acceptors(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        for _ in 0..ROUND_MESSAGES_MAX {
            let Some(store) = self.state.store_mut(queue) else { return };
            let is_dead_letter = store.is_dead_letter();
            let Some(sessions) = store.sessions.as_mut().filter(|sessions| !sessions.acceptors.is_empty())
            else {
                return;
            };
            let Some((number, sequence)) = sessions.next_available() else { return };
            if store.slots.get(sequence).is_none_or(|slot| slot.is_over(is_dead_letter, cx.now)) {
                store.mark_unavailable(sequence);
                continue;
            }
            let Some(acceptor) = sessions.acceptors.pop_first() else { return };
            store.links.consumers -= 1;
            self.grant(cx, queue, number, &acceptor, None);
        }
        if let Some(store) = self.state.messages.entities.stores.get_mut(&queue) {
            self.state.messages.entities.agenda.wake(store);
        }
    }

    /// A free session gets a holder. One that asked for it by its id is told that spelling: the SDK for Go refuses
    /// another.
    pub(crate) fn grant(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        session: SessionNumber,
        acceptor: &Acceptor,
        asked: Option<Box<str>>,
    ) {
        let &Acceptor { client, link, mode, limit, drain, .. } = acceptor;
        let Some(info) = self.state.messages.info(queue) else { return };
        let number = self.state.links.next_number();
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return };
        store.touched_at = cx.now;
        let until = cx.now.after(store.lock_duration);
        let Some(sessions) = store.sessions.as_mut() else { return };
        let since = LockId(self.state.next_lock);
        let accepted = sessions.accept(session, Holder { consumer: Some(number), until, since, taken: 0 });
        let Some(id) = sessions.get(session).filter(|_| accepted).map(Session::id) else { return };
        let id = asked.unwrap_or_else(|| Box::from(&**id));
        store.links.attached.insert((client, link));
        store.links.consumers += 1;
        if drain {
            store.links.draining.push(number);
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
            wait_state: WaitState::Idle,
            took_locks: false,
            browse_cursor: SequenceCursor::default(),
            selection: None,
            subscription_role: SubscriptionRole::Shared,
            session: Some(session),
        };
        self.state.links.consumers.insert(number, consumer);
        if let Some(client) = self.state.links.clients.get_mut(&client) {
            client.links.insert(link, Link::Consumer { number });
        }
        self.state.messages.entities.agenda.wake(store);
        self.state.messages.entities.agenda.arm(store);
        let session = Some(SessionGrant { id, until });
        cx.tell(client, Effect::ConsumerOpened { consumer: link, queue: info, session });
    }

    /// The holder gives a session up: its messages return uncounted, unless its time was over already.
    pub(crate) fn release_session(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        number: SessionNumber,
    ) {
        let sessions = self.state.store(queue).and_then(|store| store.sessions.as_ref());
        let holder = sessions.and_then(|sessions| sessions.get(number)).and_then(|it| it.holder(cx.now));
        let fail = holder.is_none();
        let room = cx.release_room();
        let left = self.end_session(cx, queue, number, fail, room);
        cx.use_room(room, left);
    }

    /// The holder's client is lost: the lock runs on, so that the client can come back to its session.
    pub(crate) fn lose_holder(&mut self, queue: QueueId, number: SessionNumber) {
        if let Some(sessions) = self.state.store_mut(queue).and_then(|store| store.sessions.as_mut()) {
            sessions.lose_holder(number);
        }
    }

    /// A session's lock has expired: its holder is detached, and its messages return as failed.
    fn lose_session(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        number: SessionNumber,
        left: u32,
    ) -> u32 {
        let sessions = self.state.store(queue).and_then(|store| store.sessions.as_ref());
        let lock = sessions.and_then(|sessions| sessions.get(number)).map(Session::lock);
        let Some(SessionLock::Held(holder)) = lock else { return left };
        if self.goes_on(cx.now, queue, number, &holder) {
            return left;
        }
        self.state.messages.entities.was_used_until(queue, holder.until);
        let consumer = holder.consumer.and_then(|number| self.state.links.consumers.get(&number));
        if let Some((client, link)) = consumer.map(|consumer| (consumer.client, consumer.link)) {
            let state =
                self.state.links.clients.get_mut(&client).and_then(|client| client.links.remove(&link));
            if let Some(state) = state {
                let _ended_below =
                    self.state.links.detach(&mut self.state.messages.entities, cx, client, link, state);
            }
            cx.tell(client, Effect::SessionLost { consumer: link });
        }
        self.end_session(cx, queue, number, true, left)
    }

    /// Whether the lock of a session that has ended begins anew: its holder takes messages without locks, and has taken one
    /// during the lock or waits for one. It has no lock of a message to renew, and nothing tells it to renew that of the
    /// session (decision 61).
    fn goes_on(&mut self, now: Timestamp, queue: QueueId, number: SessionNumber, holder: &Holder) -> bool {
        let consumer = holder.consumer.and_then(|number| self.state.links.consumers.get(&number));
        let Some(consumer) = consumer.filter(|consumer| consumer.mode == ReceiveMode::ReceiveAndDelete)
        else {
            return false;
        };
        let taken = consumer.count;
        if !consumer.has_credit() && taken == holder.taken {
            return false;
        }
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return false };
        let until = now.after(store.lock_duration);
        let Some(sessions) = store.sessions.as_mut() else { return false };
        sessions.go_on(number, until, taken);
        self.state.messages.entities.agenda.arm(store);
        true
    }

    /// Ends a lock and returns the messages, until `left` is used up; returns the rest of `left`. The other messages
    /// return at the next deadline, and the session stays unavailable until then.
    fn end_session(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        number: SessionNumber,
        fail: bool,
        left: u32,
    ) -> u32 {
        let Some(store) = self.state.messages.entities.stores.get_mut(&queue) else { return left };
        let Some(session) = store.session(number) else { return left };
        let mut delivered = 0;
        for sequence in session.delivered() {
            delivered += 1;
            if let Some(slot) = store.slots.get(sequence) {
                self.state.lock_releases.push(LockRef { queue, sequence, lock: slot.lock() }, fail);
            }
        }
        if let Some(sessions) = &mut store.sessions {
            sessions.end(number);
        }
        self.state.messages.entities.agenda.wake(store);
        cx.out.charge(Work::SLOT.times(delivered));
        LockReleases::of(self.state).drain_lock_releases(cx, left)
    }

    /// Ends what has lasted long enough: locks, and waiting for one. Says how much of `left` is left.
    pub(crate) fn run_sessions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        queue: QueueId,
        mut left: u32,
    ) -> u32 {
        while left > 0 {
            let sessions = self.state.store(queue).and_then(|store| store.sessions.as_ref());
            let Some(number) = sessions.and_then(|sessions| sessions.first_ended(cx.now)) else { break };
            left = self.lose_session(cx, queue, number, left).saturating_sub(1);
        }
        self.refuse_impatient(cx, queue, left)
    }

    fn refuse_impatient(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, mut left: u32) -> u32 {
        while left > 0
            && let Some(store) = self.state.store_mut(queue)
            && let Some(sessions) = store.sessions.as_mut()
            && let Some(Acceptor { client, link, .. }) = sessions.acceptors.pop_impatient(cx.now)
        {
            store.touched_at = cx.now;
            store.links.attached.remove(&(client, link));
            store.links.consumers -= 1;
            if let Some(client) = self.state.links.clients.get_mut(&client) {
                client.links.remove(&link);
            }
            let error = AttachError::SessionTimeout;
            cx.tell(client, Effect::AttachRefused { link, error });
            left -= 1;
        }
        left
    }
}
