//! What the core tells a client.
//!
//! Invariant: an effect is shown to nobody before the records it depends on are durable (`broker-node` sees to it).

use bytes::Bytes;

use crate::{
    AttachError, AuthorizationRule, CommitError, Delivery, EntityError, EntityKind, EntityReport, Fetched,
    LinkId, Peeked, PublishError, QueueId, Renewed, SequenceNumber, SessionError, SettleError, StoredRule,
    Ticket, Timestamp,
};

/// One answer or event, for one client.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Answer to `OpenProducer`.
    ProducerOpened {
        /// The link.
        producer: LinkId,
        /// What it publishes to.
        queue: QueueInfo,
    },
    /// Answer to `OpenConsumer`.
    ConsumerOpened {
        /// The link.
        consumer: LinkId,
        /// What it receives from.
        queue: QueueInfo,
        /// The session it holds from now on.
        session: Option<SessionGrant>,
    },
    /// `FindSubscriber` found a subscription.
    SubscriberFound {
        /// As the command named it.
        link: LinkId,
        /// The subscription's whole name.
        subscription: Box<str>,
        /// Its topic's name.
        topic: Box<str>,
    },
    /// `OpenProducer` or `OpenConsumer` failed; the link does not exist.
    AttachRefused {
        /// The link that was asked for.
        link: LinkId,
        /// Why.
        error: AttachError,
    },
    /// Everything published under tickets `first..=last` is accepted.
    Published {
        /// First ticket.
        first: Ticket,
        /// Last ticket; equal to `first` for one.
        last: Ticket,
    },
    /// Nothing was stored of what was published under this ticket.
    PublishRefused {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        error: PublishError,
    },
    /// A message for a consumer.
    Delivery(Delivery),
    /// The settlements, and the states set, under tickets `first..=last` are done.
    Settled {
        /// First ticket.
        first: Ticket,
        /// Last ticket.
        last: Ticket,
    },
    /// The settlement or renewal under this ticket changed nothing.
    SettleRefused {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        error: SettleError,
    },
    /// A completion without a ticket changed nothing: its lock was lost before.
    CompletedTooLate {
        /// Name of the entity.
        entity: Box<str>,
        /// The message.
        sequence: SequenceNumber,
        /// The reason: the lock, or the session, is lost.
        error: SettleError,
    },
    /// Answer to `Credit` with `drain`, after the deliveries that used credit: the delivery-count is now `count`.
    Drained {
        /// The consumer.
        consumer: LinkId,
        /// Its delivery-count: the limit that was drained to.
        count: u64,
    },
    /// Answer to `RenewLocks`.
    Renewed(Renewed),
    /// Answer to `Peek`.
    Peeked {
        /// The ticket.
        ticket: Ticket,
        /// In order of sequence number; empty when there is nothing.
        messages: Vec<Peeked>,
    },
    /// Answer to `Schedule`.
    Scheduled {
        /// The ticket.
        ticket: Ticket,
        /// The messages' numbers, in the order of the request.
        sequences: Vec<SequenceNumber>,
    },
    /// Answer to `ReceiveDeferred`.
    Fetched {
        /// The ticket.
        ticket: Ticket,
        /// In the order of the request.
        messages: Vec<Fetched>,
    },
    /// Answer to `DeleteMessages`.
    Deleted {
        /// The ticket.
        ticket: Ticket,
        /// How many are gone.
        count: u32,
    },
    /// The lock of this consumer's session has ended; the link does not exist any more.
    SessionLost {
        /// The consumer.
        consumer: LinkId,
    },
    /// Answer to `RenewSession`.
    SessionRenewed {
        /// The ticket.
        ticket: Ticket,
        /// When the lock ends now.
        until: Timestamp,
    },
    /// Answer to `GetSessionState`.
    SessionState {
        /// The ticket.
        ticket: Ticket,
        /// The state; `None` for a session without one.
        state: Option<Bytes>,
    },
    /// Answer to `ListSessions`.
    SessionList {
        /// The ticket.
        ticket: Ticket,
        /// How many were passed over.
        skip: u32,
        /// Ids in order; empty when there are no more.
        ids: Vec<Box<str>>,
    },
    /// A request about a session changed nothing.
    SessionRefused {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        error: SessionError,
    },
    /// Answer to `ListRules`.
    Rules {
        /// The ticket.
        ticket: Ticket,
        /// In the order in which they were made.
        rules: Vec<StoredRule>,
    },
    /// Answer to `CreateEntity`, `UpdateEntity`, `DeleteEntity` and the like.
    EntityDone {
        /// The ticket.
        ticket: Ticket,
    },
    /// Answer to `Describe`.
    Described {
        /// The ticket.
        ticket: Ticket,
        /// What there is.
        entities: Vec<EntityReport>,
    },
    /// The authorization rules of an entity are these now. For who asked by `WatchKeys`.
    KeysChanged {
        /// Its name.
        entity: Box<str>,
        /// All of them; empty for one that has none, or is gone.
        rules: Vec<AuthorizationRule>,
    },
    /// A request with a ticket failed for its entity.
    RequestRefused {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        error: EntityError,
    },
    /// The status of this link's entity does not allow it any more; the link does not exist any more.
    EntityDisabled {
        /// The link.
        link: LinkId,
    },
    /// Answer to `Declare` and `Discharge`.
    TransactionDone {
        /// The ticket.
        ticket: Ticket,
    },
    /// The transaction was not declared, or not discharged as asked: nothing of it was done.
    TransactionRefused {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        error: CommitError,
    },
    /// The entity of this link forwards its messages now; the link does not exist any more.
    EntityForwards {
        /// The link.
        link: LinkId,
    },
    /// Another link of the same subscriber has taken this one's place; it does not exist any more.
    LinkStolen {
        /// The link.
        link: LinkId,
    },
    /// The entity of this link is gone; the link does not exist any more.
    EntityDeleted {
        /// The link.
        link: LinkId,
    },
}

/// What a link needs to know of its entity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueInfo {
    /// The store.
    pub queue: QueueId,
    /// What the entity is.
    pub kind: EntityKind,
    /// The entity's name as it was first written.
    pub name: Box<str>,
    /// Largest message it takes, in bytes: the smaller of its own and the broker's limit.
    pub max_message_bytes: u64,
    /// It detects duplicates: its messages need their `message_id`.
    pub detects_duplicates: bool,
    /// It has partitions: its messages need their `partition_key`.
    pub partitioned: bool,
}

/// A session just accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionGrant {
    /// Its id.
    pub id: Box<str>,
    /// When its lock ends.
    pub until: Timestamp,
}
