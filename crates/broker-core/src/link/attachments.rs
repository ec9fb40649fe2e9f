//! Clients connect, attach, grant credit and leave.
//!
//! Invariant: a link stands in its client's list and in its store's, or in neither.

use std::collections::BTreeMap;

use broker_filter::Filter;

use super::{
    client::{Consumer, Link, SubscriptionRole, WaitState},
    table::Left,
};
use crate::{
    AttachError, ClientId, Effect, EntityError, EntityKind, EntityPath, LinkId, Output, QueueId, ReceiveMode,
    SessionWanted, SubQueue, UnsettledPolicy,
    admin::{dynamic::DynamicNodeAdmin, entities::EntityAdmin, removal::EntityRemoval},
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    session::holders::SessionHolders,
    settle::lock_release::LockReleases,
    store::{Holders, partition::SequenceCursor, selection::Selection},
    transaction::manager::TransactionManager,
};

/// Parameters of a consumer that opens.
pub(crate) struct ConsumerOptions {
    pub(crate) mode: ReceiveMode,
    pub(crate) unsettled: UnsettledPolicy,
    pub(crate) session: Option<SessionWanted>,
    pub(crate) filter: Filter,
    /// See [`Consumer`].
    pub(crate) subscription_role: SubscriptionRole,
}

impl ConsumerOptions {
    /// A consumer of all messages, without a session.
    pub(crate) fn of(mode: ReceiveMode, unsettled: UnsettledPolicy) -> Self {
        Self {
            mode,
            unsettled,
            session: None,
            filter: Filter::True,
            subscription_role: SubscriptionRole::Shared,
        }
    }
}

/// Opens and closes links.
#[derive(Debug)]
pub(crate) struct Attachments<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> Attachments<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl Attachments<'_> {
    pub(crate) fn disconnect(&mut self, cx: &mut Cx<'_, impl Output>) {
        TransactionManager::of(self.state).roll_back_all(cx);
        let Some(state) = self.state.links.clients.get_mut(&cx.client) else { return };
        let links = std::mem::take(&mut state.links);
        (state.blocked, state.stale_consumers) = (Vec::new(), 0);
        let mut closed: BTreeMap<QueueId, Holders> = BTreeMap::new();
        let temporary: Vec<_> =
            links.values().filter_map(|state| self.state.links.temporary_of(*state)).collect();
        for (link, state) in links {
            match self.state.links.detach(&mut self.state.messages.entities, cx, cx.client, link, state) {
                Some(Left::Locks(queue, number, fail)) => {
                    closed.entry(queue).or_default().insert(number, fail);
                }
                Some(Left::Session(queue, number)) => {
                    SessionHolders::of(self.state).lose_holder(queue, number);
                }
                None => {}
            }
        }
        for (queue, holders) in closed {
            LockReleases::of(self.state).end_locks(cx, queue, &holders);
        }
        self.state.links.clients.remove(&cx.client);
        for subscription in temporary {
            EntityRemoval::of(self.state).leave_temporary(cx, subscription);
        }
        DynamicNodeAdmin::of(self.state).delete_of_client(cx, cx.client);
    }

    pub(crate) fn open_producer(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
    ) {
        let opened = self.prepare_producer(cx, link, path, auto_create).and_then(|queue| {
            self.state
                .messages
                .entities
                .check_use(queue, Use::Send)
                .map_err(|_| AttachError::Disabled(path.entity.clone()))?;
            Ok((queue, queue))
        });
        self.finish_link(cx, link, opened, |_, queue| Link::Producer { queue });
    }

    /// The link belongs to the entity between, and knows what it needs of the target.
    pub(crate) fn open_producer_via(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: &EntityPath,
        via: &EntityPath,
        auto_create: bool,
    ) {
        let between = self.prepare_producer(cx, link, via, auto_create);
        let opened = between.and_then(|between| {
            self.state
                .messages
                .entities
                .check_use(between, Use::Send)
                .map_err(|_| AttachError::Disabled(via.entity.clone()))?;
            Ok((between, self.prepare_producer(cx, link, path, auto_create)?))
        });
        self.finish_link(cx, link, opened, |_, queue| Link::Producer { queue });
    }

    /// Finds the store for a new link that publishes.
    fn prepare_producer(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
    ) -> Result<QueueId, AttachError> {
        if path.sub_queue != SubQueue::Main {
            return Err(AttachError::SubQueueSend(path.entity.clone()));
        }
        let queue = self.prepare_link(cx, link, path, auto_create)?;
        match self.state.messages.entities.kind_of(queue) {
            Some(EntityKind::Subscription) => Err(AttachError::SubscriptionSend(path.entity.clone())),
            _ => Ok(queue),
        }
    }

    pub(crate) fn open_consumer(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: &EntityPath,
        options: ConsumerOptions,
        auto_create: bool,
    ) {
        let ConsumerOptions { mode, unsettled, session, filter, subscription_role } = options;
        let opened = self.prepare_link(cx, link, path, auto_create);
        let opened = opened.and_then(|queue| match self.state.messages.entities.kind_of(queue) {
            Some(EntityKind::Topic) if path.sub_queue == SubQueue::Main => {
                Err(AttachError::TopicReceive(path.entity.clone()))
            }
            _ if self.state.store(queue).is_some_and(|store| store.forwards.is_some()) => {
                Err(AttachError::Forwards(path.entity.clone()))
            }
            _ => self.check_consumer(queue, path).map(|()| queue),
        });
        let opened = opened.and_then(|queue| {
            DynamicNodeAdmin::of(self.state).check_receiver(cx.client, queue)?;
            Ok(queue)
        });
        let opened = opened.and_then(|queue| {
            SessionHolders::of(self.state).check_session_use(queue, path, mode, session.as_ref())?;
            if filter == Filter::True { Ok(()) } else { self.check_selector(queue) }?;
            Ok(queue)
        });
        if let (Ok(queue), Some(wanted)) = (&opened, session) {
            return SessionHolders::of(self.state).open_in_session(cx, link, *queue, mode, wanted);
        }
        let client = cx.client;
        let make = |core: &mut Self, queue| {
            let number = core.state.links.next_number();
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
                wait_state: WaitState::Idle,
                took_locks: false,
                browse_cursor: SequenceCursor::default(),
                selection: (filter != Filter::True).then(|| Box::new(Selection::new(filter))),
                subscription_role,
                session: None,
            };
            if consumer.selects()
                && let Some(store) = core.state.store_mut(queue)
            {
                store.links.selectors.get_or_insert_default().count += 1;
            }
            core.state.links.consumers.insert(number, consumer);
            Link::Consumer { number }
        };
        let opened = opened.map(|queue| (queue, queue));
        self.finish_link(cx, link, opened, make);
    }

    /// Finds the store for a new link. A link of the same number is closed, because the gateway reuses the numbers of
    /// closed ones.
    fn prepare_link(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: &EntityPath,
        auto_create: bool,
    ) -> Result<QueueId, AttachError> {
        let client = cx.client;
        self.close_link(cx, client, link);
        let links = self.state.links.clients.get(&client).map_or(0, |client| client.links.len());
        let limit = self.state.messages.config.max_links_per_client;
        if links as u64 >= limit {
            return Err(AttachError::LimitReached { what: "links per connection", limit });
        }
        EntityAdmin::of(&mut self.state.messages).resolve_or_create(cx, path, auto_create).map_err(|error| {
            match error {
                EntityError::InvalidName(name) => AttachError::InvalidName(name),
                EntityError::LimitReached { what, limit } => AttachError::LimitReached { what, limit },
                EntityError::QuotaExceeded(_) => AttachError::NotCreated(error),
                _ => AttachError::NotFound(path.entity.clone()),
            }
        })
    }

    /// Refuses a consumer that the entity's status or its number of consumers forbids.
    fn check_consumer(&self, queue: QueueId, path: &EntityPath) -> Result<(), AttachError> {
        self.state
            .messages
            .entities
            .check_use(queue, Use::Receive)
            .map_err(|_| AttachError::Disabled(path.entity.clone()))?;
        let consumers = self.state.store(queue).map_or(0, |store| store.links.consumers);
        let limit = self.state.messages.config.max_consumers_per_entity;
        if consumers >= limit {
            return Err(AttachError::LimitReached { what: "receivers per entity", limit });
        }
        Ok(())
    }

    /// Refuses a consumer with a selector above the limit: each message is matched for each of them.
    fn check_selector(&self, queue: QueueId) -> Result<(), AttachError> {
        let selectors = self.state.store(queue).and_then(|store| store.links.selectors.as_ref());
        let limit = self.state.messages.config.max_selectors_per_entity;
        if selectors.map_or(0, |selectors| selectors.count) >= limit {
            return Err(AttachError::LimitReached { what: "receivers with a selector per entity", limit });
        }
        Ok(())
    }

    /// `opened` is the store that the link belongs to, and the one that the answer describes.
    fn finish_link(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        opened: Result<(QueueId, QueueId), AttachError>,
        link_of: impl FnOnce(&mut Self, QueueId) -> Link,
    ) {
        let client = cx.client;
        if !self.state.links.clients.contains_key(&client) {
            return;
        }
        let opened = opened.and_then(|(id, about)| {
            let missing = || AttachError::NotFound(format!("queue {}", about.0).into());
            Ok((id, self.state.messages.info(about).ok_or_else(missing)?))
        });
        let effect = match opened {
            Err(error) => Effect::AttachRefused { link, error },
            Ok((id, queue)) => {
                let made = link_of(self, id);
                if let Some(client) = self.state.links.clients.get_mut(&client) {
                    client.links.insert(link, made);
                }
                if matches!(made, Link::Consumer { .. } | Link::Acceptor { .. }) {
                    self.state.messages.entities.touch(cx, id);
                }
                if let Some(store) = self.state.store_mut(id) {
                    store.links.attached.insert((client, link));
                    store.links.consumers += u64::from(matches!(made, Link::Consumer { .. }));
                }
                match made {
                    Link::Producer { .. } => Effect::ProducerOpened { producer: link, queue },
                    Link::Consumer { .. } | Link::Acceptor { .. } => {
                        Effect::ConsumerOpened { consumer: link, queue, session: None }
                    }
                }
            }
        };
        cx.reply(effect);
    }

    pub(crate) fn close_link(&mut self, cx: &mut Cx<'_, impl Output>, client: ClientId, link: LinkId) {
        self.end_link(cx, client, link, true);
    }

    /// The same where the receiver has ended its link in order.
    pub(crate) fn leave_link(&mut self, cx: &mut Cx<'_, impl Output>, client: ClientId, link: LinkId) {
        self.end_link(cx, client, link, false);
    }

    /// `may_fail`: what the link held counts as failed, if its policy says so.
    fn end_link(&mut self, cx: &mut Cx<'_, impl Output>, client: ClientId, link: LinkId, may_fail: bool) {
        let Some(state) =
            self.state.links.clients.get_mut(&client).and_then(|client| client.links.remove(&link))
        else {
            return;
        };
        let temporary = self.state.links.temporary_of(state);
        match self.state.links.detach(&mut self.state.messages.entities, cx, client, link, state) {
            Some(Left::Locks(queue, number, fail)) => {
                let holders = Holders::from([(number, fail && may_fail)]);
                LockReleases::of(self.state).end_locks(cx, queue, &holders);
            }
            Some(Left::Session(queue, number)) => {
                SessionHolders::of(self.state).release_session(cx, queue, number);
            }
            None => {}
        }
        if let Some(subscription) = temporary {
            EntityRemoval::of(self.state).leave_temporary(cx, subscription);
        }
    }
}
