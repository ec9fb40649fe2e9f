//! What the gateway knows of each session and link.
//!
//! Invariant: a link is one of six kinds for as long as it lives.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
};

use amqp_codec::{
    performative::{Attach, TxnId},
    types::{DeliveryTag, SenderSettleMode},
};
use amqp_engine::{LinkKey, SessionId};
use broker_auth::{Right, Scope};
use broker_core::{EntityPath, LinkId, NodeKind, QueueId};
use bytes::Bytes;
use tracing::Span;

use crate::{
    address,
    answers::Unread,
    forgetting::Forgetting,
    intake::Wants,
    locks::Locks,
    settlement::{Dialect, WireOutcome},
    slab::Slab,
    subscribing::{Lookup, Subscribing},
    tickets::SessionNumber,
};

/// The sessions of a connection, by [`SessionNumber`].
pub(crate) type Sessions = Slab<Session, 11, 12>;
/// The links of a connection, by [`LinkId`].
pub(crate) type Links = Slab<Link, 16, 16>;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The engine's name for it.
    pub(crate) id: SessionId,
    /// What the peer has not settled.
    pub(crate) locks: Locks,
    /// Sizes in bytes of deliveries given to the engine, of which the last ones are not sent.
    unsent: VecDeque<u32>,
    /// Their sum.
    unsent_bytes: u64,
    /// Which deliveries the engine may forget.
    pub(crate) forgetting: Forgetting,
    /// What the log shows of it.
    pub(crate) span: Span,
}

impl Session {
    /// A session without links.
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            locks: Locks::default(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            forgetting: Forgetting::default(),
            span: Span::none(),
        }
    }

    /// Notes a delivery that the engine was given.
    pub(crate) fn given(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unsent.push_back(bytes);
        self.unsent_bytes += u64::from(bytes);
    }

    /// Bytes of deliveries that wait in the engine, which says how many those are.
    pub(crate) fn waiting(&mut self, deliveries: usize) -> u64 {
        while self.unsent.len() > deliveries
            && let Some(bytes) = self.unsent.pop_front()
        {
            self.unsent_bytes -= u64::from(bytes);
        }
        self.unsent_bytes
    }
}

/// One link.
#[derive(Debug)]
pub(crate) struct Link {
    /// The engine's name for it.
    pub(crate) key: LinkKey,
    /// The session it belongs to.
    pub(crate) session: SessionNumber,
    /// Its name on the wire.
    pub(crate) name: Box<str>,
    /// How its peer's words are read.
    pub(crate) dialect: Dialect,
    /// The right it lives by; `None` for `$cbs` and the anonymous terminus.
    pub(crate) claim: Option<(Scope, Right)>,
    /// What it is for.
    pub(crate) role: LinkRole,
    /// The broker has detached it and the peer has not: a receiver of which deliveries are open.
    pub(crate) departed: bool,
    /// What the log shows of it.
    pub(crate) span: Span,
}

impl Link {
    /// The rights that it lives by: where it leads to, and what it leads through.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (Cow<'_, Scope>, Right)> {
        let via = match &self.role {
            LinkRole::Producer(producer) => producer.via.as_ref(),
            _ => None,
        };
        let via = via.map(|via| (Cow::Owned(Scope::of(&address::resource(via, false))), Right::Send));
        self.claim.iter().map(|(scope, right)| (Cow::Borrowed(scope), *right)).chain(via)
    }

    /// The entity or node that error texts name.
    pub(crate) fn place(&self) -> &str {
        match &self.role {
            LinkRole::Producer(producer) => producer.path.as_ref().map_or("", |path| &path.entity),
            LinkRole::Consumer(consumer) => &consumer.path.entity,
            LinkRole::Requests(requests) => requests.node.place(),
            LinkRole::Replies(replies) => replies.node.place(),
            LinkRole::Coordinator { .. } | LinkRole::Lookup(_) => "",
        }
    }
}

/// What a link is for.
#[derive(Debug)]
pub(crate) enum LinkRole {
    /// The peer sends messages.
    Producer(Box<Producer>),
    /// The peer receives messages.
    Consumer(Box<Consumer>),
    /// The peer sends requests to a node.
    Requests(Box<Requests>),
    /// The peer receives a node's answers.
    Replies(Box<Replies>),
    /// The peer looks a subscription up.
    Lookup(Box<Lookup>),
    /// The peer declares and discharges transactions.
    Coordinator {
        /// Whether the peer understands `rejected`; else a refusal detaches the link.
        takes_rejected: bool,
    },
}

impl LinkRole {
    /// The subscription that is given up with the link, which the peer has closed for good or not.
    pub(crate) fn ends(&self, closed: bool) -> Option<Box<str>> {
        match self {
            Self::Consumer(consumer) => consumer.subscribing.as_ref()?.ends(closed),
            Self::Lookup(lookup) => lookup.ends(closed),
            Self::Producer(_) | Self::Requests(_) | Self::Replies(_) | Self::Coordinator { .. } => None,
        }
    }
}

/// A link on which the peer sends messages.
#[derive(Debug)]
pub(crate) struct Producer {
    /// Where to; `None` for the anonymous terminus.
    pub(crate) path: Option<EntityPath>,
    /// The kind of node that was asked for.
    pub(crate) kind: Option<NodeKind>,
    /// The entity it is sent through; a message never shows there.
    pub(crate) via: Option<EntityPath>,
    /// The store, once the core has opened the link; `None` where it is sent through another one.
    pub(crate) queue: Option<QueueId>,
    /// What it needs to know of its messages.
    pub(crate) wants: Wants,
    /// The attach that waits for the core's answer.
    pub(crate) attach: Option<Box<Attach>>,
    /// Largest message, in bytes.
    pub(crate) max_message_bytes: u64,
    /// Whether the peer understands `rejected`; else a refusal detaches the link.
    pub(crate) takes_rejected: bool,
    /// Messages in transactions that the peer waits for an answer to, by the name of their transaction.
    pub(crate) unanswered: BTreeMap<u128, u32>,
}

impl Producer {
    /// A message in a transaction is answered.
    pub(crate) fn answered(&mut self, name: u128) {
        if let Some(count) = self.unanswered.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.unanswered.remove(&name);
            }
        }
    }

    /// Whether the answer to a message must find its link, and not only its delivery-id: for the anonymous
    /// terminus, whose errors name the tag, and where a refusal detaches the link.
    pub(crate) const fn is_tracked(&self) -> bool {
        self.path.is_none() || !self.takes_rejected
    }
}

/// A link on which the peer receives messages.
#[derive(Debug)]
pub(crate) struct Consumer {
    /// Where from.
    pub(crate) path: EntityPath,
    /// The attach that waits for the core's answer.
    pub(crate) attach: Option<Box<Attach>>,
    /// The link's sender settle mode.
    pub(crate) mode: SenderSettleMode,
    /// What settling without a word means.
    pub(crate) default_outcome: Option<WireOutcome>,
    /// First half of the message-ids made for messages without one.
    pub(crate) id_base: u64,
    /// Largest message the peer takes, in bytes; `None`: any.
    pub(crate) max_message_bytes: Option<u64>,
    /// Deliveries, as the core counts them.
    pub(crate) delivered: u64,
    /// How far the core's count is ahead of the peer's.
    pub(crate) offset: i64,
    /// The peer's limit, as the peer counts.
    pub(crate) limit: u64,
    /// The limit the core was told.
    pub(crate) told: u64,
    /// Deliveries the peer has not settled.
    pub(crate) unsettled: u32,
    /// It holds a session.
    pub(crate) in_session: bool,
    /// The peer's last word on credit was a drain, and it is not answered.
    pub(crate) draining: bool,
    /// Limits to which a drain was asked and not answered, oldest first: the peer's and the core's.
    pub(crate) drains: VecDeque<(u64, u64)>,
    /// What it has to do with a subscription of its own, if it may have one.
    pub(crate) subscribing: Option<Box<Subscribing>>,
}

/// Which node a request goes to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NodeName {
    /// `$cbs`.
    Cbs,
    /// `<entity>/$management`.
    Management(EntityPath),
}

impl NodeName {
    /// True for the same node, without regard to ASCII case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cbs, Self::Cbs) => true,
            (Self::Management(one), Self::Management(two)) => {
                one.sub_queue == two.sub_queue && one.entity.eq_ignore_ascii_case(&two.entity)
            }
            _ => false,
        }
    }
}

/// A link on which requests come.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The node they are for.
    pub(crate) node: NodeName,
}

/// A link on which answers go.
#[derive(Debug)]
pub(crate) struct Replies {
    /// The node they are from.
    pub(crate) node: NodeName,
    /// The address of the peer's own terminus.
    pub(crate) target_address: Option<Box<str>>,
    /// Whether answers go out settled.
    pub(crate) settled: bool,
    /// The peer's limit.
    pub(crate) limit: u64,
    /// Answers sent.
    pub(crate) sent: u64,
    /// Answers that wait for credit: their sections, and the values of their bodies.
    pub(crate) waiting: VecDeque<(Bytes, Bytes)>,
    /// Bytes of answers that have not left.
    pub(crate) unread: Unread,
}

/// A message that waits for the core's answer and cannot be told apart by its ticket alone.
#[derive(Debug)]
pub(crate) struct TrackedPublish {
    /// The link it came on.
    pub(crate) link: LinkId,
    /// Its session.
    pub(crate) session: SessionNumber,
    /// Its number there.
    pub(crate) delivery: u32,
    /// Its tag, for the error's `info`.
    pub(crate) tag: DeliveryTag,
    /// Whether the peer has settled it.
    pub(crate) settled: bool,
    /// The transaction it is part of.
    pub(crate) transaction: Option<TxnId>,
}
