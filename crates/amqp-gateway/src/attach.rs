//! Attach of links: a request of the peer, answered when the core has answered.
//!
//! Invariant: each attach is answered once, with the peer's own source and target but for filters that are not
//! applied, or refused with an error.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::Attach,
    raw::{AnnotationValue, RawMap},
    types::{Role, SenderSettleMode},
};
use amqp_engine::{AttachReply, LinkKey};
use broker_auth::Right;
use broker_core::{AttachError, Command, EntityPath, LinkId, QueueInfo, SessionGrant};
use tracing::{Span, debug};

use crate::{
    attach_request::{
        LinkTarget, has_service_bus_property, receive_mode, requested_source, requested_target,
        takes_rejected, target_address, transfer_destination, unsettled_policy,
    },
    condition::Refusal,
    correlation::SessionNumber,
    gateway::Gateway,
    link::{Consumer, Link, LinkRole, NodeName, Producer, Replies, Requests},
    log_spans,
    message_parse::RequiredFields,
    reply_backpressure::UnreadReplies,
    requested_kind::{self, asking},
    sessions,
    settlement_rules::{Dialect, WireOutcome},
    tracking,
};

impl Gateway {
    /// The peer attaches a link.
    pub(crate) fn on_attached(&mut self, key: LinkKey, attach: Box<Attach>) {
        if let Err(refusal) = self.attach(key, attach) {
            let error = self.error(&refusal, "");
            self.engine.refuse_link(key, error);
        }
    }

    fn attach(&mut self, key: LinkKey, attach: Box<Attach>) -> Result<(), Refusal> {
        let limit = self.config.max_links as usize;
        if self.links.len() >= limit {
            return Err(Refusal::TooManyLinks { limit });
        }
        let requested = match attach.role {
            Role::Sender => requested_target(&attach)?,
            Role::Receiver => requested_source(&attach)?,
        };
        if matches!(&requested, LinkTarget::Request(NodeName::Cbs) | LinkTarget::Reply(NodeName::Cbs)) {
            // Only Service Bus clients put tokens.
            self.dialect = Dialect::ServiceBus;
        }
        let dialect = if has_service_bus_property(&attach) { Dialect::ServiceBus } else { self.dialect };
        if let LinkTarget::Send(Some(path)) | LinkTarget::Receive(path) = &requested {
            self.check_attach_fault(&path.entity)?;
        }
        match requested {
            LinkTarget::Send(path) => self.attach_producer(key, attach, dialect, path),
            LinkTarget::Receive(path) => self.attach_consumer(key, attach, dialect, path),
            LinkTarget::Coordinate => self.attach_coordinator(key, &attach, dialect),
            LinkTarget::SubscriptionLookup => self.attach_lookup(key, attach),
            LinkTarget::Request(node) => {
                let requests = Requests { node: node.clone() };
                self.attach_node(key, &attach, &node, LinkRole::Requests(Box::new(requests)))?;
                self.engine.grant_credit(key, REQUEST_CREDIT);
                Ok(())
            }
            LinkTarget::Reply(node) => {
                let replies = Replies {
                    node: node.clone(),
                    target_address: target_address(&attach).map(Box::from),
                    settled: attach.snd_settle_mode == Some(SenderSettleMode::Settled),
                    limit: 0,
                    sent: 0,
                    waiting: std::collections::VecDeque::new(),
                    unread: UnreadReplies::default(),
                };
                self.attach_node(key, &attach, &node, LinkRole::Replies(Box::new(replies)))
            }
        }
    }

    fn attach_producer(
        &mut self,
        key: LinkKey,
        attach: Box<Attach>,
        dialect: Dialect,
        path: Option<EntityPath>,
    ) -> Result<(), Refusal> {
        let mut via = None;
        let mut path = path;
        if let Some(destination) = transfer_destination(&attach)? {
            via = path.replace(destination);
        }
        let claim = path.as_ref().map(|path| self.claim(path, false, Right::Send)).transpose()?;
        via.as_ref().map(|via| self.claim(via, false, Right::Send)).transpose()?;
        let (anonymous, kind) = (path.is_none(), requested_kind::of_attach(&attach, true)?);
        let producer = Producer {
            path: path.clone(),
            kind,
            via: via.clone(),
            queue: None,
            required_fields: RequiredFields::ALL,
            attach: None,
            max_message_bytes: self.config.max_message_bytes,
            takes_rejected: takes_rejected(&attach),
            unanswered: BTreeMap::new(),
        };
        let name = attach.name.as_str().into();
        let role = LinkRole::Producer(Box::new(producer));
        let id = self.add_link(key, name, dialect, claim, role)?;
        if let Some(producer) = self.producer_mut(id) {
            producer.attach = Some(attach);
        }
        let (producer, auto_create) = (id, self.config.auto_create);
        match (path, via) {
            (Some(path), Some(via)) => {
                self.commands.push(Command::OpenProducerVia { producer, path, via, auto_create });
            }
            (Some(path), None) => {
                let open = Command::OpenProducer { producer, path, auto_create };
                self.commands.push(asking(kind, open));
            }
            (None, _) => {}
        }
        if anonymous {
            self.accept_producer(id);
        }
        Ok(())
    }

    fn attach_consumer(
        &mut self,
        key: LinkKey,
        attach: Box<Attach>,
        dialect: Dialect,
        path: EntityPath,
    ) -> Result<(), Refusal> {
        let claim = self.claim(&path, false, Right::Listen)?;
        let source = attach.source.as_ref();
        let kind = requested_kind::of_attach(&attach, false)?;
        let session = sessions::requested(&attach)?;
        let default_outcome = source.and_then(|source| source.default_outcome.as_ref());
        let default_outcome = default_outcome.and_then(WireOutcome::of);
        let mode = attach.snd_settle_mode.unwrap_or_default();
        let receive_mode = receive_mode(mode, source);
        let subscriber = if session.is_none() { self.subscriber(&attach, dialect, &path)? } else { None };
        let (subscriber, plain_subscription) = subscriber.unzip();
        let consumer = Consumer {
            path: path.clone(),
            attach: None,
            mode,
            default_outcome,
            id_base: id_base(&path.entity),
            max_message_bytes: attach
                .max_message_size
                .filter(|limit| *limit > 0 && dialect == Dialect::Plain),
            delivered: 0,
            offset: 0,
            limit: 0,
            announced: 0,
            unsettled: 0,
            in_session: false,
            draining: false,
            drains: std::collections::VecDeque::new(),
            plain_subscription: plain_subscription.map(Box::new),
        };
        let name = attach.name.as_str().into();
        let role = LinkRole::Consumer(Box::new(consumer));
        let id = self.add_link(key, name, dialect, Some(claim), role)?;
        if let Some(consumer) = self.consumer_mut(id) {
            consumer.attach = Some(attach);
        }
        let (mode, unsettled) = (receive_mode, unsettled_policy(dialect, default_outcome));
        let auto_create = self.config.auto_create;
        let open = match subscriber {
            None => Command::OpenConsumer { consumer: id, path, mode, unsettled, session, auto_create },
            Some(subscriber) => {
                let subscriber = Box::new(subscriber);
                Command::OpenSubscriber { consumer: id, path, mode, unsettled, subscriber, auto_create }
            }
        };
        self.commands.push(asking(kind, open));
        Ok(())
    }

    fn attach_node(
        &mut self,
        key: LinkKey,
        attach: &Attach,
        node: &NodeName,
        role: LinkRole,
    ) -> Result<(), Refusal> {
        let claim = match node {
            NodeName::Cbs => None,
            // Any right on the entity opens its management node; each operation checks its own right.
            NodeName::Management(path) => Some(
                self.claim(path, true, Right::Listen)
                    .or_else(|refusal| self.claim(path, true, Right::Send).map_err(|_| refusal))?,
            ),
        };
        self.add_link(key, attach.name.as_str().into(), Dialect::ServiceBus, claim, role)?;
        let limit = match node {
            NodeName::Cbs => NODE_MESSAGE_BYTES,
            NodeName::Management(_) => self.config.max_message_bytes.saturating_add(NODE_MESSAGE_BYTES),
        };
        let reply = Self::reply_to(attach, limit, Dialect::ServiceBus);
        self.engine.accept_link(key, reply);
        Ok(())
    }

    pub(crate) fn add_link(
        &mut self,
        key: LinkKey,
        name: Box<str>,
        dialect: Dialect,
        claim: Option<(broker_auth::Scope, Right)>,
        role: LinkRole,
    ) -> Result<LinkId, Refusal> {
        let session = self.by_session.find(key.session()).map(SessionNumber).ok_or(Refusal::Unexpected)?;
        let mut link =
            Link { key, session, name, dialect, claim, role, detached_by_broker: false, span: Span::none() };
        if let Some(session) = self.sessions.get(session.0) {
            link.span = log_spans::link(&session.span, &link.name, &link.role, link.entity_name());
        }
        let limit = self.config.max_links as usize;
        let number = self.links.insert(link).ok_or(Refusal::TooManyLinks { limit })?;
        self.by_key.insert(key, number);
        self.note_claim_of(number);
        self.arm_idle_check();
        Ok(LinkId(number))
    }

    /// The core has opened a producer.
    pub(crate) fn on_producer_opened(&mut self, id: LinkId, queue: &QueueInfo) {
        let most = self.config.max_message_bytes;
        let Some(producer) = self.producer_mut(id) else { return };
        // A send via another entity names both, so the link has no queue of its own.
        producer.queue = producer.via.is_none().then_some(queue.queue);
        producer.required_fields = RequiredFields::of(queue);
        producer.max_message_bytes = queue.max_message_bytes.min(most);
        self.accept_producer(id);
    }

    fn accept_producer(&mut self, id: LinkId) {
        let credit = self.config.credit_window;
        let Some(producer) = self.producer_mut(id) else { return };
        let Some(attach) = producer.attach.take() else { return };
        let limit = producer.max_message_bytes;
        let Some(link) = self.links.get(id.0) else { return };
        let (key, dialect) = (link.key, link.dialect);
        debug!(parent: &link.span, "attached");
        let reply = Self::reply_to(&attach, limit, dialect);
        self.engine.accept_link(key, reply);
        self.engine.grant_credit(key, credit);
    }

    /// The core has opened a consumer.
    pub(crate) fn on_consumer_opened(
        &mut self,
        id: LinkId,
        queue: &QueueInfo,
        session: Option<&SessionGrant>,
    ) {
        let most = self.config.max_message_bytes;
        let limit = queue.max_message_bytes.min(most);
        let Some(consumer) = self.consumer_mut(id) else { return };
        let Some(attach) = consumer.attach.take() else { return };
        let in_force = consumer.opened_on(queue);
        let Some(link) = self.links.get(id.0) else { return };
        let (key, dialect) = (link.key, link.dialect);
        debug!(parent: &link.span, "attached");
        let mut reply = Self::reply_to(&attach, limit, dialect);
        if in_force.is_some() {
            reply.source = attach.source.clone().map(|source| source.with_filter(in_force));
        }
        if let (Some(grant), Some(consumer)) = (session, self.consumer_mut(id)) {
            consumer.in_session = true;
            reply.source = attach.source.map(|source| sessions::with_session(source, grant));
            reply.properties = Some(sessions::properties(grant));
        }
        self.engine.accept_link(key, reply);
    }

    /// The core has refused a link.
    pub(crate) fn on_attach_refused(&mut self, id: LinkId, error: AttachError) {
        let Some(link) = self.remove_link(id) else { return };
        let refusal = match (&link.role, error) {
            (LinkRole::SubscriptionLookup(_), AttachError::NotFound(name)) => {
                Refusal::NoSubscription { name: name.into() }
            }
            (_, error) => Refusal::Attach(error),
        };
        debug!(parent: &link.span, condition = refusal.named().condition, "refused");
        let error = self.error(&refusal, link.entity_name());
        self.engine.refuse_link(link.key, error);
    }

    /// The attach that answers one of the peer's.
    fn reply_to(attach: &Attach, max_message_bytes: u64, dialect: Dialect) -> AttachReply {
        let source = attach.source.as_ref().map(|source| match &source.filter {
            // An answer must not echo a filter that is not applied (AMQP 1.0 messaging 3.5.3).
            Some(filter) if !filter.is_empty() => source.clone().with_filter(None),
            _ => source.clone(),
        });
        let properties = (dialect == Dialect::ServiceBus && attach.role == Role::Sender).then(|| {
            RawMap::with_symbol_keys(&[(
                BATCH_SIZE,
                AnnotationValue::Ulong(max_message_bytes.min(BATCH_BYTES_MAX)),
            )])
        });
        // The limit is one of what the broker accepts. What it sends has no bound: a stored message grows by what the
        // broker adds, and Microsoft.Azure.Amqp closes a link on which a message exceeds this field.
        let max_message_size = if attach.role == Role::Receiver { UNBOUNDED } else { max_message_bytes };
        AttachReply {
            source,
            target: attach.target.clone(),
            max_message_size: Some(max_message_size),
            // The SDKs for Service Bus ask for mode second and wait for a settled answer.
            settles_second: dialect == Dialect::Plain,
            properties,
            ..AttachReply::default()
        }
    }

    pub(crate) fn producer_mut(&mut self, id: LinkId) -> Option<&mut Producer> {
        match &mut self.links.get_mut(id.0)?.role {
            LinkRole::Producer(producer) => Some(producer),
            _ => None,
        }
    }

    pub(crate) fn consumer_mut(&mut self, id: LinkId) -> Option<&mut Consumer> {
        match &mut self.links.get_mut(id.0)?.role {
            LinkRole::Consumer(consumer) => Some(consumer),
            _ => None,
        }
    }
}

/// The same for an entity and its sub-queues, however its name is written: FNV-1a, then mixed.
pub(crate) fn id_base(entity: &str) -> u64 {
    let hash = entity.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    });
    tracking::mix(hash)
}

/// `max-message-size` of a link without a limit, in the form in which Azure Service Bus says it.
pub(crate) const UNBOUNDED: u64 = u64::MAX;

/// Requests a node takes before the next top-up at half.
pub(crate) const REQUEST_CREDIT: u32 = 100;
/// Largest request to `$cbs`, in bytes: tokens are a few kilobytes.
pub(crate) const NODE_MESSAGE_BYTES: u64 = 65_536;
/// Largest batch that a client is told to make, in bytes, however large one message may be.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";
