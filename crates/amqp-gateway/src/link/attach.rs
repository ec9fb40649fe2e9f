//! Attach of links: a request of the peer, answered when the core has answered.
//!
//! Invariant: each attach is answered once, or refused with an error.

use amqp_codec::{
    performative::{Attach, Target},
    types::{Role, Symbol},
};
use amqp_engine::{AttachReply, LinkKey};
use broker_auth::{Right, Scope};
use broker_core::{
    AttachError, Command, DynamicNode, EntityPath, LinkId, NodeKind, ReceiveMode, split_subscription,
};
use tracing::{Span, debug};

use super::{
    Link, LinkKind, Receiver, ReplyLink, Sender, SubscriptionLookup,
    attach_request::{
        LinkTarget, broker_address, has_service_bus_property, receive_mode, reply_to, requested_source,
        requested_target, takes_rejected, transfer_destination, unsettled_policy,
    },
    dynamic_attach::{OpeningNode, check_managed, claim_entity},
    plain_subscription,
    requested_kind::{self, asking},
    session_filter,
};
use crate::{
    address::NodeName, condition::Refusal, cx::Cx, dialect::Dialect, disposition::rules::WireOutcome,
    endpoints::Endpoints, fault_injection::InjectedFaults, log_spans,
};

/// Requests a node takes before the next top-up at half.
pub(crate) const REQUEST_CREDIT: u32 = 100;
/// Largest request to `$cbs`, in bytes: tokens are a few kilobytes.
const NODE_MESSAGE_BYTES: u64 = 65_536;
/// Capabilities of the coordinator (transactions 4.5.1).
const COORDINATOR_CAPABILITIES: [&str; 3] =
    ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"];

/// The command that opens a link: to a node that it creates, or to one of the kind that was asked for.
fn creating(node: Option<DynamicNode>, kind: Option<NodeKind>, open: Command) -> Command {
    match node {
        Some(node) => Command::OpenDynamicNode { node: Box::new(node), open: Box::new(open) },
        None => asking(kind, open),
    }
}

/// Opens the links of one connection.
#[derive(Debug)]
pub(crate) struct Attacher<'a> {
    pub(super) cx: &'a mut Cx,
    pub(super) ends: &'a mut Endpoints,
}

impl<'a> Attacher<'a> {
    pub(crate) const fn new(cx: &'a mut Cx, ends: &'a mut Endpoints) -> Self {
        Self { cx, ends }
    }

    /// The peer attaches a link.
    pub(crate) fn on_attach(&mut self, key: LinkKey, attach: Box<Attach>, faults: &mut InjectedFaults) {
        if let Err(refusal) = self.attach(key, attach, faults) {
            let error = self.cx.error(&refusal, "");
            self.cx.engine.refuse_link(key, error);
        }
    }

    fn attach(
        &mut self,
        key: LinkKey,
        attach: Box<Attach>,
        faults: &mut InjectedFaults,
    ) -> Result<(), Refusal> {
        let limit = self.cx.config.max_links as usize;
        if self.ends.links.len() >= limit {
            return Err(Refusal::TooManyLinks { limit });
        }
        let is_service_bus_link = has_service_bus_property(&attach);
        let dialect = |cx: &Cx| if is_service_bus_link { Dialect::ServiceBus } else { cx.client.dialect() };
        let syntax = self.cx.addresses(dialect(self.cx));
        let requested = match attach.role {
            Role::Sender => requested_target(&attach, syntax)?,
            Role::Receiver => requested_source(&attach, syntax)?,
        };
        if matches!(&requested, LinkTarget::Request(NodeName::Cbs) | LinkTarget::Reply(NodeName::Cbs)) {
            // Only Service Bus clients put tokens.
            self.cx.client.set_service_bus();
        }
        let dialect = dialect(self.cx);
        if let LinkTarget::Send(Some(path)) | LinkTarget::Receive(path) = &requested {
            faults.check_attach(&path.entity, self.cx)?;
        }
        match requested {
            LinkTarget::Send(path) => self.attach_sender(key, attach, dialect, path, None).map(drop),
            LinkTarget::Receive(path) => self.attach_receiver(key, attach, dialect, path, None).map(drop),
            LinkTarget::Dynamic => self.attach_dynamic(key, attach, dialect),
            LinkTarget::Coordinate => self.attach_coordinator(key, &attach, dialect),
            LinkTarget::SubscriptionLookup => self.attach_lookup(key, attach),
            LinkTarget::Request(node) => {
                self.attach_node(key, &attach, &node, LinkKind::Request(Box::new(node.clone())))?;
                self.cx.engine.grant_credit(key, REQUEST_CREDIT);
                Ok(())
            }
            LinkTarget::Reply(node) => {
                let replies = ReplyLink::new(&attach, node.clone());
                self.attach_node(key, &attach, &node, LinkKind::Reply(Box::new(replies)))
            }
        }
    }

    /// The peer asks for a node and a link to it.
    fn attach_dynamic(
        &mut self,
        key: LinkKey,
        mut attach: Box<Attach>,
        dialect: Dialect,
    ) -> Result<(), Refusal> {
        let (opening, permit) = OpeningNode::of(self.cx, &mut self.ends.dynamic_nodes, &mut attach)?;
        let path = opening.path();
        let name = path.entity.clone();
        let creator = (Box::from(attach.name.as_str()), attach.role);
        let link = match attach.role {
            Role::Sender => self.attach_sender(key, attach, dialect, Some(path), Some(opening))?,
            Role::Receiver => self.attach_receiver(key, attach, dialect, path, Some(opening))?,
        };
        self.ends.dynamic_nodes.insert(name, link, creator, permit);
        Ok(())
    }

    fn attach_sender(
        &mut self,
        key: LinkKey,
        attach: Box<Attach>,
        dialect: Dialect,
        path: Option<EntityPath>,
        opening: Option<OpeningNode>,
    ) -> Result<LinkId, Refusal> {
        let mut via = None;
        let mut path = path;
        if let Some(destination) = transfer_destination(&attach)? {
            via = path.replace(destination);
        }
        let (dynamic, claim) = opening.map(|opening| (opening.node, opening.claim)).unzip();
        let claim = match (claim, &path) {
            (None, Some(path)) => Some(claim_entity(self.cx, &self.ends.dynamic_nodes, path, Right::Send)?),
            (claim, _) => claim,
        };
        via.as_ref().map(|via| self.cx.claim(via, false, Right::Send)).transpose()?;
        for path in path.iter().chain(&via) {
            self.check_name(&attach, dialect, path)?;
        }
        let kind = requested_kind::of_attach(&attach, true, self.cx.addresses(dialect))?;
        let name = attach.name.as_str().into();
        // A message that comes before the core has answered is judged by the core, which knows the entity.
        let most = match &path {
            Some(_) => self.cx.config.max_message_bytes,
            None => dialect.largest_message(&self.cx.config),
        };
        let sender = Sender::new(attach, path.clone(), via.clone(), kind, most);
        let producer = self.add(key, name, dialect, claim, LinkKind::Sender(Box::new(sender)))?;
        self.note_creator(producer, path.as_ref(), Role::Sender);
        let auto_create = self.cx.config.auto_create;
        match (path, via) {
            (Some(path), Some(via)) => {
                let open = Command::OpenProducerVia { producer, path, via, auto_create };
                self.cx.commands.push(open);
            }
            (Some(path), None) => {
                let open = Command::OpenProducer { producer, path, auto_create };
                self.cx.commands.push(creating(dynamic, kind, open));
            }
            (None, _) => self.accept_sender(producer),
        }
        Ok(producer)
    }

    pub(super) fn accept_sender(&mut self, id: LinkId) {
        let Some(link) = self.ends.links.get_mut(id) else { return };
        let LinkKind::Sender(sender) = &mut link.kind else { return };
        let Some((attach, limit)) = sender.accept() else { return };
        if let Some(path) = sender.first_entity()
            && let Some(session) = self.ends.sessions.get_mut(link.session)
        {
            session.via_entity.on_attached(path);
        }
        debug!(parent: &link.span, "attached");
        self.cx.engine.accept_link(link.key, reply_to(&attach, limit, link.dialect));
        self.cx.engine.grant_credit(link.key, self.cx.config.credit_window);
    }

    fn attach_receiver(
        &mut self,
        key: LinkKey,
        attach: Box<Attach>,
        dialect: Dialect,
        path: EntityPath,
        opening: Option<OpeningNode>,
    ) -> Result<LinkId, Refusal> {
        let (dynamic, claim) = opening.map(|opening| (opening.node, opening.claim)).unzip();
        let claim = match claim {
            Some(claim) => claim,
            None => claim_entity(self.cx, &self.ends.dynamic_nodes, &path, Right::Listen)?,
        };
        self.check_name(&attach, dialect, &path)?;
        // A plain client's link may be one of Service Bus, for its session filter; the rule is about clients.
        if self.cx.client.dialect() == Dialect::ServiceBus {
            let session = self.ends.sessions.find(key.session()).ok_or(Refusal::Unexpected)?;
            self.ends
                .sessions
                .get(session)
                .map_or(Ok(()), |session| session.via_entity.check_receiver(&path))?;
        }
        let source = attach.source.as_ref();
        let kind = requested_kind::of_attach(&attach, false, self.cx.addresses(dialect))?;
        let looks_on = session_filter::only_looks_on(&attach);
        let session = session_filter::requested(&attach)?.filter(|_| !looks_on);
        let default_outcome = source.and_then(|source| source.default_outcome.as_ref());
        let default_outcome = default_outcome.and_then(WireOutcome::of);
        let mode = receive_mode(attach.snd_settle_mode.unwrap_or_default(), source);
        let mode = if looks_on { ReceiveMode::Browse } else { mode };
        let subscriber = if session.is_none() && !looks_on {
            plain_subscription::subscriber(self.cx, &attach, dialect, &path)?
        } else {
            None
        };
        let (subscriber, plain_subscription) = subscriber.unzip();
        let name = attach.name.as_str().into();
        let receiver = Receiver::new(attach, path.clone(), dialect, default_outcome, plain_subscription);
        let consumer = self.add(key, name, dialect, Some(claim), LinkKind::Receiver(Box::new(receiver)))?;
        self.note_creator(consumer, Some(&path), Role::Receiver);
        let unsettled = unsettled_policy(dialect, default_outcome);
        let auto_create = self.cx.config.auto_create;
        let open = match subscriber {
            None => Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create },
            Some(subscriber) => {
                let subscriber = Box::new(subscriber);
                Command::OpenSubscriber { consumer, path, mode, unsettled, subscriber, auto_create }
            }
        };
        self.cx.commands.push(creating(dynamic, kind, open));
        Ok(consumer)
    }

    /// Any client may attach to the coordinator: what it does in a transaction needs the same rights as outside of one.
    fn attach_coordinator(&mut self, key: LinkKey, attach: &Attach, dialect: Dialect) -> Result<(), Refusal> {
        let kind = LinkKind::Coordinator { takes_rejected: takes_rejected(attach) };
        self.add(key, attach.name.as_str().into(), dialect, None, kind)?;
        let capabilities = COORDINATOR_CAPABILITIES.map(Symbol::from_static).to_vec();
        let reply = AttachReply {
            source: attach.source.clone(),
            target: Some(Target::Coordinator { capabilities }),
            max_message_size: Some(NODE_MESSAGE_BYTES),
            settles_second: dialect == Dialect::Plain,
            ..AttachReply::default()
        };
        self.cx.engine.accept_link(key, reply);
        self.cx.engine.grant_credit(key, REQUEST_CREDIT);
        Ok(())
    }

    /// A receiver without source asks whether there is a subscription of its name.
    fn attach_lookup(&mut self, key: LinkKey, attach: Box<Attach>) -> Result<(), Refusal> {
        let capabilities = &attach.desired_capabilities;
        let (container, name) = plain_subscription::identity(self.cx, &attach, capabilities);
        let link_name = attach.name.as_str().into();
        let kind = LinkKind::SubscriptionLookup(Box::new(SubscriptionLookup::new(attach)));
        let link = self.add(key, link_name, Dialect::Plain, None, kind)?;
        self.cx.commands.push(Command::FindSubscriber { link, container, name });
        Ok(())
    }

    fn attach_node(
        &mut self,
        key: LinkKey,
        attach: &Attach,
        node: &NodeName,
        kind: LinkKind,
    ) -> Result<(), Refusal> {
        let claim = match node {
            NodeName::Cbs => None,
            // Any right on the entity opens its management node; each operation checks its own right.
            NodeName::Management(path) => {
                check_managed(&self.ends.dynamic_nodes, path)?;
                self.check_name(attach, self.cx.client.dialect(), path)?;
                let listen = self.cx.claim(path, true, Right::Listen);
                Some(listen.or_else(|refusal| self.cx.claim(path, true, Right::Send).map_err(|_| refusal))?)
            }
        };
        self.add(key, attach.name.as_str().into(), Dialect::ServiceBus, claim, kind)?;
        let limit = match node {
            NodeName::Cbs => NODE_MESSAGE_BYTES,
            // A message to schedule that is too large comes in, so that its request is answered: the SDK for .NET waits
            // for the answer alone.
            NodeName::Management(path) => {
                let largest = self.largest_scheduled(path);
                largest.saturating_mul(2).saturating_add(NODE_MESSAGE_BYTES)
            }
        };
        self.cx.engine.accept_link(key, reply_to(attach, limit, Dialect::ServiceBus));
        Ok(())
    }

    /// Largest message that a request to a management node may schedule, in bytes. An entity with a limit of its own may take
    /// more than the tier does: that is known where the client has a sender to it.
    fn largest_scheduled(&self, path: &EntityPath) -> u64 {
        let largest = self.cx.client.dialect().largest_message(&self.cx.config);
        self.ends.links.largest_sent_to(path).map_or(largest, |own| own.max(largest))
    }

    /// Refuses an entity whose name the peer cannot spell, as if there was none.
    fn check_name(&self, attach: &Attach, dialect: Dialect, path: &EntityPath) -> Result<(), Refusal> {
        let address = broker_address(attach).unwrap_or_default();
        if self.cx.addresses(dialect).may_name(address, &path.entity) {
            return Ok(());
        }
        let (name, is_made) = (path.entity.clone(), self.cx.config.auto_create);
        Err(Refusal::Attach(if is_made && split_subscription(&name).is_none() {
            AttachError::InvalidName(name)
        } else {
            AttachError::NotFound(name)
        }))
    }

    /// The link that asked for a dynamic node may be back.
    fn note_creator(&mut self, id: LinkId, path: Option<&EntityPath>, role: Role) {
        if let Some(path) = path
            && let Some(link) = self.ends.links.get(id)
        {
            self.ends.dynamic_nodes.on_attach(&path.entity, id, &link.name, role);
        }
    }

    fn add(
        &mut self,
        key: LinkKey,
        name: Box<str>,
        dialect: Dialect,
        claim: Option<(Scope, Right)>,
        kind: LinkKind,
    ) -> Result<LinkId, Refusal> {
        let session = self.ends.sessions.find(key.session()).ok_or(Refusal::Unexpected)?;
        let mut link =
            Link { key, session, name, dialect, claim, kind, detached_by_broker: false, span: Span::none() };
        if let Some(session) = self.ends.sessions.get(session) {
            link.span = log_spans::link(session.span(), &link.name, link.label(), link.entity_name());
        }
        let limit = self.cx.config.max_links as usize;
        let id = self.ends.links.insert(link, &self.cx.client).ok_or(Refusal::TooManyLinks { limit })?;
        if let Some(time_out) = self.cx.config.link_idle_time_out {
            self.ends.links.idle.arm(time_out, self.cx.now.instant);
        }
        Ok(id)
    }
}
