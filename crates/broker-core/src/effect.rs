//! What the core tells a client.
//!
//! Invariant: an effect is shown to nobody before the records it depends on are durable (`broker-node` sees to it).

use bytes::Bytes;

use crate::{
    AuthorizationRule, CommitError, EntityKind, EntityReport, LinkId, LockId, LockToken, More, Properties,
    PublishError, QueueId, SequenceNumber, StoredRule, Ticket, Timestamp, TransactionError,
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

/// A message on its way to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer.
    pub consumer: LinkId,
    /// The store it comes from.
    pub queue: QueueId,
    /// Its number.
    pub sequence: SequenceNumber,
    /// Its lock; `None` in receive-and-delete and browse.
    pub lock: Option<Lock>,
    /// What was stored.
    pub stored: Stored,
}

/// A lock just granted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lock {
    /// For settling on the same link.
    pub id: LockId,
    /// For settling from anywhere.
    pub token: LockToken,
    /// When it ends.
    pub until: Timestamp,
}

/// A stored message and what the broker knows about it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// When the broker took it.
    pub enqueued_at: Timestamp,
    /// What only some messages have.
    pub more: Option<Box<More>>,
    /// When it expires; `None`: never. A message shown by `Peek` has it only if it brought a time to live of its
    /// own (`service-bus-entities` 5.2).
    pub expires_at: Option<Timestamp>,
    /// Failed deliveries before this one.
    pub delivery_count: u32,
    /// 0 active, 1 deferred, 2 scheduled.
    pub state: u8,
    /// Whether it was handed out before (AMQP `first-acquirer` is its opposite). A restart may forget it.
    pub acquired_before: bool,
    /// Broker-added application properties.
    pub properties: Properties,
    /// The sections as they arrived.
    pub payload: Bytes,
}

/// A message shown by `Peek`.
#[derive(Clone, Debug)]
pub struct Peeked {
    /// Its number.
    pub sequence: SequenceNumber,
    /// The message.
    pub stored: Stored,
}

/// A deferred message taken by `ReceiveDeferred`.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its number.
    pub sequence: SequenceNumber,
    /// Its lock; `None` where it was taken for good.
    pub lock: Option<Lock>,
    /// The message.
    pub stored: Stored,
}

/// Locks extended by `RenewLocks`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Renewed {
    /// The ticket.
    pub ticket: Ticket,
    /// New ends, in the order of the request's tokens.
    pub until: Vec<Timestamp>,
}

/// Why a link could not be opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttachError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// No such entity.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// The name cannot be an entity's.
    #[error("`{0}` is not a valid entity name")]
    InvalidName(Box<str>),
    /// A dead-letter store takes no sends.
    #[error("messages cannot be sent to the sub-queue of `{0}`")]
    SubQueueSend(Box<str>),
    /// A subscription gets its messages from its topic.
    #[error("messages cannot be sent to the subscription `{0}`, only to its topic")]
    SubscriptionSend(Box<str>),
    /// A topic gives its messages to its subscriptions.
    #[error("messages cannot be received from the topic `{0}`, only from its subscriptions")]
    TopicReceive(Box<str>),
    /// Another consumer receives from the subscriber's subscription, which is not shared or is wanted otherwise.
    #[error("the subscription of `{0}` is in use")]
    SubscriptionInUse(Box<str>),
    /// The subscriber's subscription cannot be made or deleted.
    #[error("{0}")]
    Subscription(EntityError),
    /// All messages of this store go to another entity.
    #[error("`{0}` forwards its messages, so they cannot be received from it")]
    Forwards(Box<str>),
    /// The entity has sessions, and the consumer named none.
    #[error("`{0}` requires sessions: it can be received from by session only")]
    SessionRequired(Box<str>),
    /// The consumer named a session, and the entity has none.
    #[error("`{0}` does not require sessions: it cannot be received from by session")]
    NoSessions(Box<str>),
    /// The consumer named a session of a dead-letter store.
    #[error("a session cannot be accepted from the sub-queue of `{0}`")]
    SubQueueSession(Box<str>),
    /// Somebody has the session.
    #[error("the requested session `{0}` cannot be accepted, it may be locked by another receiver")]
    SessionLocked(Box<str>),
    /// No session was available for as long as the consumer would wait.
    #[error("no session became available in time")]
    SessionTimeout,
    /// The id of a session is too long.
    #[error("the id of the session has {chars} characters, allowed are {limit}")]
    SessionIdTooLong {
        /// How many it has.
        chars: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// A limit of the broker.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached {
        /// What is limited.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
}

/// Why a settlement or renewal was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SettleError {
    /// The entity's status does not allow it. The lock goes on.
    #[error("the entity is disabled for this operation")]
    EntityDisabled,
    /// The lock expired, was given up, or never existed.
    #[error("the lock is lost")]
    LockLost,
    /// The lock of the session is lost, and with it those of its messages.
    #[error("the lock of the session is lost")]
    SessionLockLost,
    /// A message of a session has no lock of its own to be renewed.
    #[error("a message of a session is locked as long as its session, renew that")]
    LockedBySession,
    /// The entity does not exist any more.
    #[error("the entity is gone")]
    EntityGone,
    /// A message of a dead-letter store cannot be dead-lettered. The lock goes on.
    #[error("a dead-lettered message cannot be dead-lettered again")]
    AlreadyDeadLetter,
    /// The stored message could not be read back to be changed. The lock goes on.
    #[error("the broker's storage failed")]
    Storage,
    /// So many messages would be written anew in one step. The locks go on.
    #[error("the messages have more than {limit} bytes, which is the most that is written anew at once")]
    TooMuchAtOnce {
        /// Most bytes of all of them.
        limit: u64,
    },
    /// A transaction keeps the message, or does not take the settlement. The lock goes on.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

/// Why a request about a session was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// No such entity.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// The entity has no sessions.
    #[error("`{0}` does not require sessions")]
    NoSessions(Box<str>),
    /// This client does not hold the session, or no longer.
    #[error("the lock of the session is lost")]
    LockLost,
    /// The state is larger than a message may be.
    #[error("the state has {bytes} bytes, allowed are {limit}")]
    StateTooLarge {
        /// Its size.
        bytes: u64,
        /// The entity's limit for a message.
        limit: u64,
    },
    /// The entity is full.
    #[error("`{entity}` holds {bytes} bytes and takes at most {limit}")]
    EntityFull {
        /// The entity's name.
        entity: Box<str>,
        /// What it holds.
        bytes: u64,
        /// Its limit.
        limit: u64,
    },
    /// The disk's reserve is reached.
    #[error("the broker's storage is full")]
    StorageFull,
    /// The stored state could not be read back.
    #[error("the broker's storage failed")]
    Storage,
}

/// What [`EntityError::LimitReached`] calls the subscriptions of a topic.
pub const SUBSCRIPTIONS_PER_TOPIC: &str = "subscriptions per topic";
/// What [`EntityError::LimitReached`] calls the rules of a topic's subscriptions.
pub const RULES_PER_TOPIC: &str = "rules per topic";

/// Why a request about an entity or its messages was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EntityError {
    /// The entity's status does not allow it.
    #[error("the messaging entity `{0}` is disabled for this operation")]
    Disabled(Box<str>),
    /// The entity has sessions, and the request named none.
    #[error("`{0}` requires sessions: the request needs a session id")]
    SessionRequired(Box<str>),
    /// This client does not hold the session, or no longer.
    #[error("the lock of the session is lost")]
    SessionLockLost,
    /// Messages of an entity with partitions are not deleted in bulk.
    #[error("`{0}` has partitions: its messages cannot be deleted in bulk")]
    HasPartitions(Box<str>),
    /// No such entity.
    #[error("the messaging entity `{0}` could not be found")]
    NotFound(Box<str>),
    /// Messages cannot be forwarded there.
    #[error("`{property}` names `{target}`: {why}")]
    ForwardTarget {
        /// The property.
        property: &'static str,
        /// What it names.
        target: Box<str>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nothing that messages could be forwarded to.
    #[error("`{property}` names `{target}`: it does not exist")]
    ForwardTargetMissing {
        /// The property.
        property: &'static str,
        /// What it names.
        target: Box<str>,
    },
    /// The subscription has no such rule.
    #[error("the rule `{0}` could not be found")]
    RuleNotFound(Box<str>),
    /// The subscription has a rule of that name.
    #[error("the rule `{0}` already exists")]
    RuleExists(Box<str>),
    /// The entity or rule is not what the request took it for any more.
    #[error("`{0}` has been changed in the meantime")]
    Changed(Box<str>),
    /// The entity is no subscription.
    #[error("`{0}` is not a subscription")]
    NotASubscription(Box<str>),
    /// A property that is fixed at creation.
    #[error("`{property}` cannot be changed after creation")]
    Immutable {
        /// The property.
        property: &'static str,
    },
    /// The tier that the broker behaves as has no such thing.
    #[error("`{what}` is not available in the {profile} profile")]
    NotInProfile {
        /// What was asked for.
        what: &'static str,
        /// The profile.
        profile: &'static str,
    },
    /// The name is taken.
    #[error("the messaging entity `{0}` already exists")]
    AlreadyExists(Box<str>),
    /// The name cannot be an entity's.
    #[error("`{0}` is not a valid entity name")]
    InvalidName(Box<str>),
    /// A property is out of its range.
    #[error("`{property}` is {value}, allowed is {allowed}")]
    OutOfRange {
        /// The property.
        property: &'static str,
        /// What was asked.
        value: Box<str>,
        /// What is allowed.
        allowed: &'static str,
    },
    /// No message of this number stands as the request wants it: unknown, locked, activated, or never set aside.
    #[error(
        "no deferred or scheduled message with the sequence number {sequence} is available in `{entity}`"
    )]
    MessageNotFound {
        /// The entity's name.
        entity: Box<str>,
        /// The number.
        sequence: SequenceNumber,
    },
    /// The answer would be larger than wanted.
    #[error("the messages have {bytes} bytes, at most {limit} are given at once")]
    AnswerTooLarge {
        /// What was asked for.
        bytes: u64,
        /// What may be.
        limit: u64,
    },
    /// Stored bytes could not be read back.
    #[error("the broker's storage failed")]
    Storage,
    /// A limit of the broker.
    #[error("the limit of {limit} {what} is reached")]
    LimitReached {
        /// What is limited.
        what: &'static str,
        /// How many are allowed.
        limit: u64,
    },
}
