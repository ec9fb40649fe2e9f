//! Effects: replies and notifications of the core to a client.
//!
//! Invariant: `broker-node` holds an effect back until the records that it depends on are durable.

use bytes::Bytes;

use crate::{
    AttachError, AuthorizationRule, CommitError, Delivery, EntityError, EntityKind, EntityReport, Fetched,
    LinkId, NamespaceDefinition, NamespaceError, Peeked, PublishError, QueueId, Renewed, SequenceNumber,
    SessionError, SettleError, StoredRule, Ticket, Timestamp,
};

/// One answer or event, for one client.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Answer to `OpenProducer`.
    ProducerOpened { producer: LinkId, queue: QueueInfo },
    /// Answer to `OpenConsumer`.
    ConsumerOpened {
        consumer: LinkId,
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
        topic: Box<str>,
    },
    /// `OpenProducer` or `OpenConsumer` failed; the link does not exist.
    AttachRefused { link: LinkId, error: AttachError },
    /// Everything published under tickets `first..=last` is accepted.
    Published {
        first: Ticket,
        /// Last ticket; equal to `first` for one.
        last: Ticket,
    },
    /// Nothing was stored of what was published under this ticket.
    PublishRefused { ticket: Ticket, error: PublishError },
    /// A message for a consumer.
    Delivery(Delivery),
    /// The settlements, and the states set, under tickets `first..=last` are done.
    Settled { first: Ticket, last: Ticket },
    /// The settlement or renewal under this ticket changed nothing.
    SettleRefused { ticket: Ticket, error: SettleError },
    /// A completion without a ticket changed nothing: its lock was lost before.
    CompletedTooLate {
        /// Name of the entity.
        entity: Box<str>,
        sequence: SequenceNumber,
        /// The reason: the lock, or the session, is lost.
        error: SettleError,
    },
    /// Answer to `Credit` with `drain`, after the deliveries that used credit: the delivery-count is now `count`.
    Drained {
        consumer: LinkId,
        /// Its delivery-count: the limit that was drained to.
        count: u64,
    },
    /// Answer to `RenewLocks`.
    Renewed(Renewed),
    /// Answer to `Peek`.
    Peeked {
        ticket: Ticket,
        /// In order of sequence number; empty when there is nothing.
        messages: Vec<Peeked>,
    },
    /// Answer to `Schedule`.
    Scheduled {
        ticket: Ticket,
        /// The messages' numbers, in the order of the request.
        sequences: Vec<SequenceNumber>,
    },
    /// Answer to `ReceiveDeferred`.
    Fetched {
        ticket: Ticket,
        /// In the order of the request.
        messages: Vec<Fetched>,
    },
    /// Answer to `DeleteMessages`.
    Deleted { ticket: Ticket, count: u32 },
    /// The lock of this consumer's session has ended; the link does not exist any more.
    SessionLost { consumer: LinkId },
    /// Answer to `RenewSession`.
    SessionRenewed {
        ticket: Ticket,
        /// When the lock ends now.
        until: Timestamp,
    },
    /// Answer to `GetSessionState`.
    SessionState {
        ticket: Ticket,
        /// The state; `None` for a session without one.
        state: Option<Bytes>,
    },
    /// Answer to `ListSessions`.
    SessionList {
        ticket: Ticket,
        /// Number of sessions that were passed over.
        skip: u32,
        /// Ids in order; empty when there are no more.
        ids: Vec<Box<str>>,
    },
    /// A request about a session changed nothing.
    SessionRefused { ticket: Ticket, error: SessionError },
    /// Answer to `ListRules`.
    Rules {
        ticket: Ticket,
        /// In the order in which they were made.
        rules: Vec<StoredRule>,
    },
    /// Answer to `CreateEntity`, `UpdateEntity`, `DeleteEntity` and the like.
    EntityDone { ticket: Ticket },
    /// A namespace was created or changed as asked, by a request to the node.
    NamespaceDone {
        ticket: Ticket,
        definition: Box<NamespaceDefinition>,
        /// It was created.
        is_new: bool,
    },
    /// A request to the node for a namespace was refused.
    NamespaceRefused { ticket: Ticket, error: NamespaceError },
    /// Answer to `Describe`.
    Described { ticket: Ticket, entities: Vec<EntityReport> },
    /// The authorization rules of an entity have changed to these. Sent to the client of `WatchKeys`.
    KeysChanged {
        entity: Box<str>,
        /// All of them; empty for an entity that has none, or was deleted.
        rules: Vec<AuthorizationRule>,
    },
    /// A request with a ticket failed for its entity.
    RequestRefused { ticket: Ticket, error: EntityError },
    /// The status of this link's entity does not allow it any more; the link does not exist any more.
    EntityDisabled { link: LinkId },
    /// Answer to `Declare` and `Discharge`.
    TransactionDone { ticket: Ticket },
    /// The transaction was not declared, or not discharged as asked: nothing of it was done.
    TransactionRefused { ticket: Ticket, error: CommitError },
    /// The entity of this link forwards its messages now; the link does not exist any more.
    EntityForwards { link: LinkId },
    /// Another link of the same subscriber has taken this one's place; it does not exist any more.
    LinkStolen { link: LinkId },
    /// A dynamic node of this client was deleted.
    DynamicNodeGone { name: Box<str> },
    /// The entity of this link was deleted, and the link with it.
    EntityDeleted { link: LinkId },
}

/// Facts about an entity that its links need.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueInfo {
    pub queue: QueueId,
    pub kind: EntityKind,
    /// The entity's name as it was first written.
    pub name: Box<str>,
    /// Largest message it takes, in bytes: its own limit, or the broker's where it has none.
    pub max_message_bytes: u64,
    /// The same for senders within the limits of the tier.
    pub tier_message_bytes: u64,
    /// It detects duplicates: its messages need their `message_id`.
    pub detects_duplicates: bool,
    /// It has partitions: its messages need their `partition_key`.
    pub partitioned: bool,
}

/// A session just accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionGrant {
    pub id: Box<str>,
    pub until: Timestamp,
}
