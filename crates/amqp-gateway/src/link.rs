//! Sessions and links of a connection.
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
    correlation::SessionNumber,
    message_parse::RequiredFields,
    plain_subscription::{PlainSubscription, SubscriptionLookup},
    reply_backpressure::UnreadReplies,
    settlement_rules::{Dialect, WireOutcome},
    settlement_watermark::SettlementWatermark,
    slab::Slab,
    unsettled::UnsettledDeliveries,
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
    /// Deliveries that the peer has not settled.
    pub(crate) unsettled: UnsettledDeliveries,
    /// Sizes in bytes of deliveries given to the engine, of which the last ones are not sent.
    unsent: VecDeque<u32>,
    unsent_bytes: u64,
    /// Which deliveries the engine may forget.
    pub(crate) watermark: SettlementWatermark,
    /// Span for log lines.
    pub(crate) span: Span,
}

impl Session {
    /// A session without links.
    pub(crate) fn new(id: SessionId) -> Self {
        Self {
            id,
            unsettled: UnsettledDeliveries::default(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            watermark: SettlementWatermark::default(),
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
    /// Dialect in which the link was attached.
    pub(crate) dialect: Dialect,
    /// The right it lives by; `None` for `$cbs` and the anonymous terminus.
    pub(crate) claim: Option<(Scope, Right)>,
    pub(crate) role: LinkRole,
    /// The broker has detached it and the peer has not: a receiver of which deliveries are open.
    pub(crate) detached_by_broker: bool,
    /// Span for log lines.
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
    pub(crate) fn entity_name(&self) -> &str {
        match &self.role {
            LinkRole::Producer(producer) => producer.path.as_ref().map_or("", |path| &path.entity),
            LinkRole::Consumer(consumer) => &consumer.path.entity,
            LinkRole::Requests(requests) => requests.node.entity_name(),
            LinkRole::Replies(replies) => replies.node.entity_name(),
            LinkRole::Coordinator { .. } | LinkRole::SubscriptionLookup(_) => "",
        }
    }
}

/// Role of a link.
#[derive(Debug)]
pub(crate) enum LinkRole {
    Producer(Box<Producer>),
    Consumer(Box<Consumer>),
    /// The peer sends requests to a node.
    Requests(Box<Requests>),
    /// The peer receives a node's answers.
    Replies(Box<Replies>),
    /// The peer looks a subscription up.
    SubscriptionLookup(Box<SubscriptionLookup>),
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
            Self::Consumer(consumer) => consumer.plain_subscription.as_ref()?.ends(closed),
            Self::SubscriptionLookup(lookup) => lookup.ends(closed),
            Self::Producer(_) | Self::Requests(_) | Self::Replies(_) | Self::Coordinator { .. } => None,
        }
    }
}

/// A link on which the peer sends messages.
#[derive(Debug)]
pub(crate) struct Producer {
    /// Target entity; `None` for the anonymous terminus.
    pub(crate) path: Option<EntityPath>,
    pub(crate) kind: Option<NodeKind>,
    /// The entity it is sent through; a message never shows there.
    pub(crate) via: Option<EntityPath>,
    /// The store, once the core has opened the link; `None` where it is sent through another one.
    pub(crate) queue: Option<QueueId>,
    /// Optional fields that its entity needs of messages.
    pub(crate) required_fields: RequiredFields,
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
    /// Source entity.
    pub(crate) path: EntityPath,
    /// The attach that waits for the core's answer.
    pub(crate) attach: Option<Box<Attach>>,
    /// The link's sender settle mode.
    pub(crate) mode: SenderSettleMode,
    /// Outcome of a delivery that the peer settles without a state.
    pub(crate) default_outcome: Option<WireOutcome>,
    /// First half of the message-ids made for messages without one.
    pub(crate) id_base: u64,
    /// Largest message the peer takes, in bytes; `None`: any.
    pub(crate) max_message_bytes: Option<u64>,
    /// Deliveries, as the core counts them.
    pub(crate) delivered: u64,
    /// Difference between the core's delivery count and the peer's.
    pub(crate) offset: i64,
    /// The peer's limit, as the peer counts.
    pub(crate) limit: u64,
    /// The limit the core was told.
    pub(crate) announced: u64,
    /// Deliveries the peer has not settled.
    pub(crate) unsettled: u32,
    /// It holds a session.
    pub(crate) in_session: bool,
    /// The peer's last word on credit was a drain, and it is not answered.
    pub(crate) draining: bool,
    /// Limits to which a drain was asked and not answered, oldest first: the peer's and the core's.
    pub(crate) drains: VecDeque<(u64, u64)>,
    /// Subscription that a plain receiver of a topic owns, if it may have one.
    pub(crate) plain_subscription: Option<Box<PlainSubscription>>,
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
    pub(crate) node: NodeName,
}

/// A link on which answers go.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) node: NodeName,
    /// The address of the peer's own terminus.
    pub(crate) target_address: Option<Box<str>>,
    /// Whether answers go out settled.
    pub(crate) settled: bool,
    pub(crate) limit: u64,
    /// Answers sent.
    pub(crate) sent: u64,
    /// Answers that wait for credit: their sections, and the values of their bodies.
    pub(crate) waiting: VecDeque<(Bytes, Bytes)>,
    /// Bytes of answers that have not left.
    pub(crate) unread: UnreadReplies,
}

/// A message that waits for the core's answer and cannot be told apart by its ticket alone.
#[derive(Debug)]
pub(crate) struct TrackedPublish {
    /// The link it came on.
    pub(crate) link: LinkId,
    pub(crate) session: SessionNumber,
    pub(crate) delivery: u32,
    /// Its tag, for the error's `info`.
    pub(crate) tag: DeliveryTag,
    /// Whether the peer has settled it.
    pub(crate) settled: bool,
    /// The transaction it is part of.
    pub(crate) transaction: Option<TxnId>,
}
