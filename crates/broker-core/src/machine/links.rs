//! Clients connect, attach, grant credit and leave.
//!
//! Invariant: a link stands in its client's list and in its store's, or in neither.

use std::collections::BTreeMap;

use broker_filter::Filter;

use super::{Core, status::Use, wake};
use crate::{
    AttachError, ClientId, Effect, EntityError, EntityKind, EntityPath, LinkId, Output, QueueId, ReceiveMode,
    SessionWanted, SubQueue, Timestamp, UnsettledPolicy,
    client::{Client, Consumer, Link, Place, Standing},
    partition::Onward,
    selection::Selection,
    sessions::SessionNumber,
    slot::ConsumerNumber,
    store::{Holders, Store},
};

/// How a consumer receives.
pub(super) struct How {
    pub(super) mode: ReceiveMode,
    pub(super) unsettled: UnsettledPolicy,
    pub(super) session: Option<SessionWanted>,
    /// Which of the messages.
    pub(super) filter: Filter,
    /// See [`Consumer`].
    pub(super) standing: Standing,
}

impl Core {
    pub(super) fn connect(&mut self, client: ClientId) {
        self.clients.entry(client).or_default();
    }

    pub(super) fn disconnect(&mut self, now: Timestamp, client: ClientId, out: &mut impl Output) {
        self.roll_back_all(now, client, out);
        let Some(state) = self.clients.get_mut(&client) else { return };
        let links = std::mem::take(&mut state.links);
        (state.blocked, state.gone) = (Vec::new(), 0);
        let mut closed: BTreeMap<QueueId, Holders> = BTreeMap::new();
        let temporary: Vec<_> = links.values().filter_map(|state| self.temporary_of(*state)).collect();
        for (link, state) in links {
            match self.detach(client, link, state) {
                Some(Left::Locks(queue, number, fail)) => {
                    closed.entry(queue).or_default().insert(number, fail);
                }
                Some(Left::Session(queue, number)) => self.lose_holder(queue, number),
                None => {}
            }
        }
        for (queue, holders) in closed {
            self.end_locks(now, queue, &holders, out);
        }
        self.clients.remove(&client);
        for subscription in temporary {
            self.leave_temporary(subscription, out);
        }
    }

    pub(super) fn open_producer(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
        out: &mut impl Output,
    ) {
        let opened = self.prepare_producer(now, client, link, path, auto_create, out).and_then(|queue| {
            self.check_use(queue, Use::Send).map_err(|_| AttachError::Disabled(path.entity.clone()))?;
            Ok((queue, queue))
        });
        self.finish_link(client, link, opened, |_, queue| Link::Producer { queue }, out);
    }

    /// The link belongs to the entity between, and knows what it needs of the target.
    pub(super) fn open_producer_through(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        (path, through): (&EntityPath, &EntityPath),
        auto_create: bool,
        out: &mut impl Output,
    ) {
        let between = self.prepare_producer(now, client, link, through, auto_create, out);
        let opened = between.and_then(|between| {
            self.check_use(between, Use::Send).map_err(|_| AttachError::Disabled(through.entity.clone()))?;
            Ok((between, self.prepare_producer(now, client, link, path, auto_create, out)?))
        });
        self.finish_link(client, link, opened, |_, queue| Link::Producer { queue }, out);
    }

    /// Finds the store for a new link that publishes.
    fn prepare_producer(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
        out: &mut impl Output,
    ) -> Result<QueueId, AttachError> {
        if path.sub_queue != SubQueue::Main {
            return Err(AttachError::SubQueueSend(path.entity.clone()));
        }
        let queue = self.prepare_link(now, client, link, path, auto_create, out)?;
        match self.kind_of(queue) {
            Some(EntityKind::Subscription) => Err(AttachError::SubscriptionSend(path.entity.clone())),
            _ => Ok(queue),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn open_consumer(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        path: &EntityPath,
        how: How,
        auto_create: bool,
        out: &mut impl Output,
    ) {
        let How { mode, unsettled, session, filter, standing } = how;
        let opened = self.prepare_link(now, client, link, path, auto_create, out);
        let opened = opened.and_then(|queue| match self.kind_of(queue) {
            Some(EntityKind::Topic) if path.sub_queue == SubQueue::Main => {
                Err(AttachError::TopicReceive(path.entity.clone()))
            }
            _ if self.stores.get(&queue).is_some_and(|store| store.forwards.is_some()) => {
                Err(AttachError::Forwards(path.entity.clone()))
            }
            _ => self.check_consumer(queue, path).map(|()| queue),
        });
        let opened = opened.and_then(|queue| {
            self.check_session_use(queue, path, mode, session.as_ref())?;
            if filter == Filter::True { Ok(()) } else { self.check_selector(queue) }?;
            Ok(queue)
        });
        if let (Ok(queue), Some(wanted)) = (&opened, session) {
            return self.open_in_session(now, client, link, *queue, mode, wanted, out);
        }
        let make = |core: &mut Self, queue| {
            let number = ConsumerNumber(core.next_consumer);
            core.next_consumer = core.next_consumer.wrapping_add(1);
            let consumer = Consumer {
                client,
                link,
                queue,
                mode,
                unsettled,
                limit: 0,
                count: 0,
                drain: false,
                is_listed: false,
                place: Place::Idle,
                took_locks: false,
                browsed: Onward::default(),
                selection: (filter != Filter::True).then(|| Box::new(Selection::new(filter))),
                standing,
                session: None,
            };
            if consumer.selects()
                && let Some(store) = core.stores.get_mut(&queue)
            {
                store.selectors.get_or_insert_default().count += 1;
            }
            core.consumers.insert(number, consumer);
            Link::Consumer { number }
        };
        let opened = opened.map(|queue| (queue, queue));
        self.finish_link(client, link, opened, make, out);
    }

    /// Finds the store for a new link. A link of the same number is closed: the gateway says that it is gone.
    fn prepare_link(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
        out: &mut impl Output,
    ) -> Result<QueueId, AttachError> {
        self.close_link(now, client, link, out);
        let links = self.clients.get(&client).map_or(0, |client| client.links.len());
        let limit = self.config.max_links_per_client;
        if links as u64 >= limit {
            return Err(AttachError::LimitReached { what: "links per connection", limit });
        }
        self.resolve_or_create(now, path, auto_create, out).map_err(|error| match error {
            EntityError::InvalidName(name) => AttachError::InvalidName(name),
            EntityError::LimitReached { what, limit } => AttachError::LimitReached { what, limit },
            _ => AttachError::NotFound(path.entity.clone()),
        })
    }

    /// Refuses a consumer that the entity's status or its number of consumers forbids.
    fn check_consumer(&self, queue: QueueId, path: &EntityPath) -> Result<(), AttachError> {
        self.check_use(queue, Use::Receive).map_err(|_| AttachError::Disabled(path.entity.clone()))?;
        let consumers = self.stores.get(&queue).map_or(0, |store| store.consumers);
        let limit = self.config.max_consumers_per_entity;
        if consumers >= limit {
            return Err(AttachError::LimitReached { what: "receivers per entity", limit });
        }
        Ok(())
    }

    /// Refuses one more consumer that wants some of the messages only: each of them looks at each message.
    fn check_selector(&self, queue: QueueId) -> Result<(), AttachError> {
        let selectors = self.stores.get(&queue).and_then(|store| store.selectors.as_ref());
        let limit = self.config.max_selectors_per_entity;
        if selectors.map_or(0, |selectors| selectors.count) >= limit {
            return Err(AttachError::LimitReached { what: "receivers with a selector per entity", limit });
        }
        Ok(())
    }

    pub(super) fn kind_of(&self, queue: QueueId) -> Option<EntityKind> {
        Some(self.main_of(queue)?.definition.kind)
    }

    /// `opened` is the store that the link belongs to, and the one it is told about.
    fn finish_link(
        &mut self,
        client: ClientId,
        link: LinkId,
        opened: Result<(QueueId, QueueId), AttachError>,
        link_of: impl FnOnce(&mut Self, QueueId) -> Link,
        out: &mut impl Output,
    ) {
        if !self.clients.contains_key(&client) {
            return;
        }
        let opened = opened.and_then(|(id, about)| {
            let missing = || AttachError::NotFound(format!("queue {}", about.0).into());
            Ok((id, self.info(about).ok_or_else(missing)?))
        });
        let effect = match opened {
            Err(error) => Effect::AttachRefused { link, error },
            Ok((id, queue)) => {
                let made = link_of(self, id);
                if let Some(client) = self.clients.get_mut(&client) {
                    client.links.insert(link, made);
                }
                if matches!(made, Link::Consumer { .. } | Link::Acceptor { .. }) {
                    self.touch(id);
                }
                if let Some(store) = self.stores.get_mut(&id) {
                    store.links.insert((client, link));
                    store.consumers += u64::from(matches!(made, Link::Consumer { .. }));
                }
                match made {
                    Link::Producer { .. } => Effect::ProducerOpened { producer: link, queue },
                    Link::Consumer { .. } | Link::Acceptor { .. } => {
                        Effect::ConsumerOpened { consumer: link, queue, session: None }
                    }
                }
            }
        };
        self.merge.effect(client, effect, out);
    }

    pub(super) fn close_link(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        out: &mut impl Output,
    ) {
        let Some(state) = self.clients.get_mut(&client).and_then(|client| client.links.remove(&link)) else {
            return;
        };
        let temporary = self.temporary_of(state);
        match self.detach(client, link, state) {
            Some(Left::Locks(queue, number, fail)) => {
                self.end_locks(now, queue, &Holders::from([(number, fail)]), out);
            }
            Some(Left::Session(queue, number)) => self.release_session(now, queue, number, out),
            None => {}
        }
        if let Some(subscription) = temporary {
            self.leave_temporary(subscription, out);
        }
    }

    /// The temporary subscription that a link receives from.
    fn temporary_of(&self, state: Link) -> Option<QueueId> {
        let Link::Consumer { number } = state else { return None };
        let consumer = self.consumers.get(&number)?;
        matches!(consumer.standing, Standing::Temporary).then_some(consumer.queue)
    }

    /// Takes a link out of everything but its client's list. Says what it leaves behind.
    pub(super) fn detach(&mut self, client: ClientId, link: LinkId, state: Link) -> Option<Left> {
        let number = match state {
            Link::Consumer { number } => number,
            Link::Producer { queue } => {
                self.stores.get_mut(&queue)?.links.remove(&(client, link));
                return None;
            }
            Link::Acceptor { queue, number } => {
                let store = self.stores.get_mut(&queue)?;
                store.touched_at = self.now;
                store.links.remove(&(client, link));
                store.consumers -= 1;
                store.sessions.as_mut()?.acceptors.remove(number);
                return None;
            }
        };
        let consumer = self.consumers.remove(&number)?;
        let store = self.stores.get_mut(&consumer.queue)?;
        store.touched_at = self.now;
        store.links.remove(&(client, link));
        store.consumers -= 1;
        match consumer.place {
            Place::Idle => {}
            Place::Ring if consumer.selects() => {
                if let Some(selectors) = &mut store.selectors {
                    selectors.ring.retain(|waiting| *waiting != number);
                }
            }
            Place::Ring => store.leave_ring(|waiting| self.consumers.contains_key(&waiting)),
            Place::Blocked => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.leave_blocked(|waiting| self.consumers.contains_key(&waiting));
                }
            }
        }
        if consumer.selects() {
            store.selectors = store.selectors.take().filter(|selectors| selectors.count > 1);
            store.selectors.iter_mut().for_each(|selectors| selectors.count -= 1);
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

    pub(super) fn credit(&mut self, client: ClientId, link: LinkId, limit: u64, drain: bool) {
        let number = match self.clients.get(&client).and_then(|c| c.links.get(&link)).copied() {
            Some(Link::Consumer { number }) => number,
            Some(Link::Acceptor { queue, number }) => {
                let store = self.stores.get_mut(&queue);
                if let Some(sessions) = store.and_then(|store| store.sessions.as_mut()) {
                    sessions.acceptors.set_credit(number, limit, drain);
                }
                return;
            }
            Some(Link::Producer { .. }) | None => return,
        };
        let Some(consumer) = self.consumers.get_mut(&number) else { return };
        let Some(store) = self.stores.get_mut(&consumer.queue) else { return };
        store.touched_at = self.now;
        consumer.limit = limit;
        consumer.drain = drain;
        if drain && !std::mem::replace(&mut consumer.is_listed, true) {
            store.draining.push(number);
        }
        if consumer.has_credit() && consumer.place == Place::Idle {
            enter_ring(consumer, number, store);
            store.arm_for_receivers(&mut self.timers);
        }
        wake(store, &mut self.active);
    }

    pub(super) fn byte_budget(&mut self, client: ClientId, limit: u64, least: u32) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        (client.budget, client.least) = (limit, least);
        if client.handed >= client.budget {
            return;
        }
        let Client { blocked, gone, .. } = client;
        *gone = 0;
        for number in blocked.drain(..) {
            if let Some(consumer) = self.consumers.get_mut(&number)
                && let Some(store) = self.stores.get_mut(&consumer.queue)
            {
                enter_ring(consumer, number, store);
                store.arm_for_receivers(&mut self.timers);
                wake(store, &mut self.active);
            }
        }
    }
}

/// What a consumer that is gone leaves behind.
pub(super) enum Left {
    /// Its locks end, as failed or not.
    Locks(QueueId, ConsumerNumber, bool),
    /// It held a session.
    Session(QueueId, SessionNumber),
}

/// Puts a consumer behind those that wait for a message, or its session in turn.
fn enter_ring(consumer: &mut Consumer, number: ConsumerNumber, store: &mut Store) {
    if let (Some(session), Some(sessions)) = (consumer.session, &mut store.sessions) {
        consumer.place = Place::Idle;
        return sessions.call(session);
    }
    consumer.place = Place::Ring;
    if consumer.mode == ReceiveMode::Browse {
        store.browsers.push_back(number);
    } else if let Some(selectors) = store.selectors.as_mut().filter(|_| consumer.selects()) {
        selectors.ring.push_back(number);
    } else {
        store.ring.push_back(number);
    }
}
