//! The clients of one namespace, their links, and the consumers among these.
//!
//! Invariant: a link stands in its client's list and in its store's, or in neither.

use super::client::{Client, Consumer, Link, SubscriptionRole, WaitState};
use crate::{
    ClientId, LinkId, Output, QueueId, ReceiveMode, UnsettledPolicy,
    call::Cx,
    entity::table::EntityTable,
    id_map::IdMap,
    store::{
        Store,
        sessions::{Session, SessionLock, SessionNumber, Sessions},
        slot::ConsumerNumber,
    },
};

/// The clients of one namespace and their links.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub(crate) clients: IdMap<ClientId, Client>,
    pub(crate) consumers: IdMap<ConsumerNumber, Consumer>,
    next_consumer: u32,
}

impl Default for LinkTable {
    fn default() -> Self {
        Self { clients: IdMap::default(), consumers: IdMap::default(), next_consumer: 1 }
    }
}

impl LinkTable {
    /// The number of a new consumer.
    pub(crate) fn next_number(&mut self) -> ConsumerNumber {
        let number = ConsumerNumber(self.next_consumer);
        self.next_consumer = self.next_consumer.wrapping_add(1);
        number
    }

    /// The sessions of a store that a client holds.
    pub(crate) fn held_by(&self, client: ClientId, queue: QueueId) -> Vec<SessionNumber> {
        let links = self.clients.get(&client).into_iter().flat_map(|client| client.links.values());
        let sessions = links.filter_map(|link| {
            let Link::Consumer { number } = link else { return None };
            self.consumers.get(number).filter(|consumer| consumer.queue == queue)?.session
        });
        sessions.collect()
    }

    pub(crate) fn may_delete(&self, client: ClientId, sessions: &Sessions, number: SessionNumber) -> bool {
        match sessions.get(number).map(Session::lock) {
            Some(SessionLock::Free) => true,
            Some(SessionLock::Held(holder)) => holder
                .consumer
                .and_then(|number| self.consumers.get(&number))
                .is_some_and(|consumer| consumer.client == client),
            Some(SessionLock::Ending) | None => false,
        }
    }

    pub(crate) fn is_awaited(&self, store: &Store) -> bool {
        store.links.attached.iter().any(|(client, link)| {
            match self.clients.get(client).and_then(|client| client.links.get(link)) {
                Some(Link::Consumer { number }) => {
                    self.consumers.get(number).is_some_and(Consumer::has_credit)
                }
                Some(Link::Acceptor { .. }) => true,
                Some(Link::Producer { .. }) | None => false,
            }
        })
    }

    pub(crate) fn connect(&mut self, client: ClientId) {
        self.clients.entry(client).or_default();
    }

    /// The temporary subscription that a link receives from.
    pub(crate) fn temporary_of(&self, state: Link) -> Option<QueueId> {
        let Link::Consumer { number } = state else { return None };
        let consumer = self.consumers.get(&number)?;
        matches!(consumer.subscription_role, SubscriptionRole::Temporary).then_some(consumer.queue)
    }

    /// Takes a link out of everything but its client's list. Says what it leaves behind.
    pub(crate) fn detach(
        &mut self,
        entities: &mut EntityTable,
        cx: &mut Cx<'_, impl Output>,
        client: ClientId,
        link: LinkId,
        state: Link,
    ) -> Option<Left> {
        let number = match state {
            Link::Consumer { number } => number,
            Link::Producer { queue } => {
                cx.note_change(queue);
                entities.stores.get_mut(&queue)?.links.attached.remove(&(client, link));
                return None;
            }
            Link::Acceptor { queue, number } => {
                cx.note_change(queue);
                let store = entities.stores.get_mut(&queue)?;
                store.touched_at = cx.now;
                store.links.attached.remove(&(client, link));
                store.links.consumers -= 1;
                store.sessions.as_mut()?.acceptors.remove(number);
                return None;
            }
        };
        let consumer = self.consumers.remove(&number)?;
        cx.note_change(consumer.queue);
        let store = entities.stores.get_mut(&consumer.queue)?;
        store.touched_at = cx.now;
        store.links.attached.remove(&(client, link));
        store.links.consumers -= 1;
        match consumer.wait_state {
            WaitState::Idle => {}
            WaitState::Ring if consumer.selects() => {
                if let Some(selectors) = &mut store.links.selectors {
                    selectors.ring.retain(|waiting| *waiting != number);
                }
            }
            WaitState::Ring => store.links.leave_ring(|waiting| self.consumers.contains_key(&waiting)),
            WaitState::Blocked => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.leave_blocked(|waiting| self.consumers.contains_key(&waiting));
                }
            }
        }
        if consumer.selects() {
            store.links.selectors = store.links.selectors.take().filter(|selectors| selectors.count > 1);
            store.links.selectors.iter_mut().for_each(|selectors| selectors.count -= 1);
        }
        if let Some(session) = consumer.session {
            return Some(Left::Session(consumer.queue, session));
        }
        match consumer.unsettled {
            _ if !consumer.took_locks => None,
            UnsettledPolicy::KeepLocks => None,
            UnsettledPolicy::Release => Some(Left::Locks(consumer.queue, number, false)),
            UnsettledPolicy::Fail => Some(Left::Locks(consumer.queue, number, true)),
        }
    }

    pub(crate) fn credit(
        &mut self,
        entities: &mut EntityTable,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        limit: u64,
        drain: bool,
    ) {
        let number = match self.clients.get(&cx.client).and_then(|c| c.links.get(&link)).copied() {
            Some(Link::Consumer { number }) => number,
            Some(Link::Acceptor { queue, number }) => {
                let store = entities.stores.get_mut(&queue);
                if let Some(sessions) = store.and_then(|store| store.sessions.as_mut()) {
                    sessions.acceptors.set_credit(number, limit, drain);
                }
                return;
            }
            Some(Link::Producer { .. }) | None => return,
        };
        let Some(consumer) = self.consumers.get_mut(&number) else { return };
        let Some(store) = entities.stores.get_mut(&consumer.queue) else { return };
        store.touched_at = cx.now;
        consumer.limit = limit;
        consumer.drain = drain;
        if drain && !std::mem::replace(&mut consumer.is_listed, true) {
            store.links.draining.push(number);
        }
        if consumer.has_credit() && consumer.wait_state == WaitState::Idle {
            enter_ring(consumer, number, store);
        }
        entities.agenda.wake(store);
    }

    pub(crate) fn byte_budget(
        &mut self,
        entities: &mut EntityTable,
        client: ClientId,
        limit: u64,
        min_bytes: u32,
    ) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        (client.budget, client.min_bytes) = (limit, min_bytes);
        if client.delivered_bytes >= client.budget {
            return;
        }
        let Client { blocked, stale_consumers, .. } = client;
        *stale_consumers = 0;
        for number in blocked.drain(..) {
            if let Some(consumer) = self.consumers.get_mut(&number)
                && let Some(store) = entities.stores.get_mut(&consumer.queue)
            {
                enter_ring(consumer, number, store);
                entities.agenda.wake(store);
            }
        }
    }
}

/// Locks that a closed consumer leaves.
pub(crate) enum Left {
    /// Its locks end, as failed or not.
    Locks(QueueId, ConsumerNumber, bool),
    /// It held a session.
    Session(QueueId, SessionNumber),
}

/// Puts a consumer behind those that wait for a message, or its session in turn.
fn enter_ring(consumer: &mut Consumer, number: ConsumerNumber, store: &mut Store) {
    if let (Some(session), Some(sessions)) = (consumer.session, &mut store.sessions) {
        consumer.wait_state = WaitState::Idle;
        return sessions.call(session);
    }
    consumer.wait_state = WaitState::Ring;
    if consumer.mode == ReceiveMode::Browse {
        store.links.browsers.push_back(number);
    } else if let Some(selectors) = store.links.selectors.as_mut().filter(|_| consumer.selects()) {
        selectors.ring.push_back(number);
    } else {
        store.links.ring.push_back(number);
    }
}
