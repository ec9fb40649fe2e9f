//! Links of a connection.
//!
//! Invariant: a link is of one kind for as long as it lives.

pub(crate) mod attach;
mod attach_reply;
mod attach_request;
mod claims;
pub(crate) mod detach;
mod dynamic_attach;
mod granted;
mod idle_timeout;
mod plain_subscription;
mod receiver;
mod reply;
pub(crate) mod requested_kind;
pub(crate) mod selector;
mod sender;
mod session_filter;
pub(crate) mod table;

use std::borrow::Cow;

use amqp_engine::LinkKey;
use broker_auth::{Right, Scope};
use tracing::Span;

pub(crate) use self::{
    plain_subscription::SubscriptionLookup, receiver::Receiver, reply::ReplyLink, requested_kind::asking,
    sender::Sender,
};
use crate::{
    address::{self, NodeName},
    correlation::SessionNumber,
    dialect::Dialect,
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
        let via = via.map(|via| (Cow::Owned(Scope::of_name(&address::resource(via, false))), Right::Send));
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

/// End of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LinkEnd {
    /// The peer may attach it again.
    Detached,
    /// The peer has closed it for good.
    Closed,
    /// One side has closed it with an error.
    Failed,
}

impl LinkEnd {
    /// By what a detach says.
    pub(crate) const fn of(closed: bool, has_error: bool) -> Self {
        match (closed, has_error) {
            (false, _) => Self::Detached,
            (true, false) => Self::Closed,
            (true, true) => Self::Failed,
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
