//! Links of a connection.
//!
//! Invariant: a link is of one kind for as long as it lives.

pub(crate) mod attach;
mod attach_reply;
mod attach_request;
mod claims;
pub(crate) mod detach;
mod idle_timeout;
mod plain_subscription;
mod receiver;
mod reply;
mod requested_kind;
pub(crate) mod selector;
mod sender;
mod session_filter;

use std::borrow::Cow;

use amqp_engine::LinkKey;
use broker_auth::{Right, Scope};
use broker_core::LinkId;
use tracing::{Span, debug};

pub use self::claims::entity_rules;
use self::{claims::ClaimExpiry, idle_timeout::IdleLinks};
pub(crate) use self::{
    plain_subscription::SubscriptionLookup, receiver::Receiver, reply::ReplyLink, requested_kind::asking,
    sender::Sender,
};
use crate::{
    address::{self, NodeName},
    connection::Client,
    correlation::SessionNumber,
    dialect::Dialect,
    key_index::Index,
    slab::Slab,
};

/// One link.
#[derive(Debug)]
pub(crate) struct Link {
    /// The engine's name for it.
    pub(crate) key: LinkKey,
    /// The session it belongs to.
    pub(crate) session: SessionNumber,
    /// Its name on the wire.
    pub(crate) name: Box<str>,
    /// Dialect in which the link was attached.
    pub(crate) dialect: Dialect,
    /// The right it lives by; `None` for `$cbs` and the anonymous terminus.
    pub(crate) claim: Option<(Scope, Right)>,
    pub(crate) kind: LinkKind,
    /// The broker has detached it and the peer has not: a receiver of which deliveries are open.
    pub(crate) detached_by_broker: bool,
    /// Span for log lines.
    pub(crate) span: Span,
}

impl Link {
    /// The rights that it lives by: where it leads to, and what it leads through.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (Cow<'_, Scope>, Right)> {
        let via = match &self.kind {
            LinkKind::Sender(sender) => sender.via(),
            _ => None,
        };
        let via = via.map(|via| (Cow::Owned(Scope::of(&address::resource(via, false))), Right::Send));
        self.claim.iter().map(|(scope, right)| (Cow::Borrowed(scope), *right)).chain(via)
    }

    /// The entity or node that error texts name.
    pub(crate) fn entity_name(&self) -> &str {
        match &self.kind {
            LinkKind::Sender(sender) => sender.path().map_or("", |path| &path.entity),
            LinkKind::Receiver(receiver) => receiver.entity_name(),
            LinkKind::Request(node) => node.entity_name(),
            LinkKind::Reply(replies) => replies.node().entity_name(),
            LinkKind::Coordinator { .. } | LinkKind::SubscriptionLookup(_) => "",
        }
    }

    /// Label of its kind in log lines.
    pub(crate) const fn label(&self) -> &'static str {
        match self.kind {
            LinkKind::Sender(_) => "sender",
            LinkKind::Receiver(_) => "receiver",
            LinkKind::Request(_) => "requests",
            LinkKind::Reply(_) => "replies",
            LinkKind::Coordinator { .. } => "coordinator",
            LinkKind::SubscriptionLookup(_) => "lookup",
        }
    }

    /// The subscription that is given up with the link, which the peer has closed for good or not.
    fn ends(&self, closed: bool) -> Option<Box<str>> {
        match &self.kind {
            LinkKind::Receiver(receiver) => receiver.ends(closed),
            LinkKind::SubscriptionLookup(lookup) => lookup.ends(closed),
            LinkKind::Sender(_)
            | LinkKind::Request(_)
            | LinkKind::Reply(_)
            | LinkKind::Coordinator { .. } => None,
        }
    }
}

/// The links of one connection, by [`LinkId`].
#[derive(Debug)]
pub(crate) struct LinkTable {
    slots: Slab<Link, 16, 16>,
    /// From the engine's names to ours.
    by_key: Index<LinkKey>,
    /// When the first claim of a link ends.
    pub(crate) claims: ClaimExpiry,
    pub(crate) idle: IdleLinks,
}

impl LinkTable {
    /// Without links.
    pub(crate) fn new() -> Self {
        Self {
            slots: Slab::new(),
            by_key: Index::new(),
            claims: ClaimExpiry::default(),
            idle: IdleLinks::default(),
        }
    }

    /// Adds a link; `None` when there are too many.
    pub(crate) fn insert(&mut self, link: Link, client: &Client) -> Option<LinkId> {
        let key = link.key;
        self.claims.note(&link, client);
        let number = self.slots.insert(link)?;
        self.by_key.insert(key, number);
        Some(LinkId(number))
    }

    /// Takes a link out.
    pub(crate) fn remove(&mut self, id: LinkId) -> Option<Link> {
        let link = self.slots.remove(id.0)?;
        debug!(parent: &link.span, "gone");
        self.by_key.remove(link.key);
        Some(link)
    }

    /// The link that the engine names so.
    #[inline]
    pub(crate) fn find(&mut self, key: LinkKey) -> Option<LinkId> {
        self.by_key.find(key).map(LinkId)
    }

    /// One link.
    #[inline]
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        self.slots.get(id.0)
    }

    /// One link, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        self.slots.get_mut(id.0)
    }

    /// Number of links.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// All links.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.slots.iter().map(|(number, link)| (LinkId(number), link))
    }

    /// All links, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.slots.iter_mut()
    }

    /// The entity or node of a link, as error texts name it.
    pub(crate) fn entity_name(&self, id: LinkId) -> &str {
        self.get(id).map_or("", Link::entity_name)
    }

    /// A link on which the peer sends.
    pub(crate) fn sender_mut(&mut self, id: LinkId) -> Option<&mut Sender> {
        match &mut self.get_mut(id)?.kind {
            LinkKind::Sender(sender) => Some(sender),
            _ => None,
        }
    }

    /// A link on which the peer receives.
    pub(crate) fn receiver_mut(&mut self, id: LinkId) -> Option<&mut Receiver> {
        match &mut self.get_mut(id)?.kind {
            LinkKind::Receiver(receiver) => Some(receiver),
            _ => None,
        }
    }
}

/// Kind of a link.
#[derive(Debug)]
pub(crate) enum LinkKind {
    /// The peer sends messages.
    Sender(Box<Sender>),
    /// The peer receives messages.
    Receiver(Box<Receiver>),
    /// The peer sends requests to a node.
    Request(Box<NodeName>),
    /// The peer receives a node's answers.
    Reply(Box<ReplyLink>),
    /// The peer looks a subscription up.
    SubscriptionLookup(Box<SubscriptionLookup>),
    /// The peer declares and discharges transactions.
    Coordinator {
        /// Whether the peer understands `rejected`; else a refusal detaches the link.
        takes_rejected: bool,
    },
}
