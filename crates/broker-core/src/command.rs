//! Commands of a client to the core.
//!
//! Invariant: every command is atomic: its records land in one journal batch, or none does.

use bytes::Bytes;

use crate::{
    DynamicNode, EntityKind, EntityPath, EntityQuery, EntitySettings, EntityVersion, LinkId, LockId,
    LockToken, Message, NodeKind, Outcome, Properties, QueueId, ReceiveMode, Rule, SequenceNumber,
    SessionWanted, StoredRule, Subscriber, Ticket, Timestamp, TransactionId, UnsettledPolicy,
};

/// One request. A `ticket` asks for an answer; where it is an `Option`, `None` asks for none.
#[derive(Clone, Debug)]
pub enum Command {
    /// First command of a client.
    Connect,
    /// Last command of a client: its transactions roll back, and all its producers and consumers close. Consumers close
    /// as the policy given with each `OpenConsumer` says.
    Disconnect,
    /// Ask to publish to an entity. Answer: `Effect::ProducerOpened` or `Effect::AttachRefused`.
    OpenProducer {
        producer: LinkId,
        path: EntityPath,
        /// Create the queue with defaults when missing.
        auto_create: bool,
    },
    /// The same through another entity, whose status decides for the link; the answer is about the target.
    OpenProducerVia {
        producer: LinkId,
        path: EntityPath,
        via: EntityPath,
        /// Create either queue with defaults when missing.
        auto_create: bool,
    },
    /// Open the link, or publish by name, with this command, at a node of this kind.
    OfKind(NodeKind, Box<Self>),
    /// Create a dynamic node, which this client owns, and open with this command a link to it. Answer as of the command. The node
    /// is deleted when its policy says so, when the client disconnects, and at the next start; where the client still
    /// is there it gets `Effect::DynamicNodeGone`. Only its owner can receive from it.
    OpenDynamicNode { node: Box<DynamicNode>, open: Box<Self> },
    /// The link that asked for a dynamic node no longer exists: it was closed and not merely detached. There is no answer.
    ReleaseDynamicNode { name: Box<str> },
    /// Give the link up.
    CloseProducer { producer: LinkId },
    /// Ask to receive from an entity. Answer: `Effect::ConsumerOpened` or `Effect::AttachRefused`.
    OpenConsumer {
        consumer: LinkId,
        path: EntityPath,
        mode: ReceiveMode,
        /// Fate of its locks when it closes.
        unsettled: UnsettledPolicy,
        /// Session, where the entity has sessions. Closing such a consumer releases its session without regard to
        /// `unsettled`; a lost client's lock runs on.
        session: Option<SessionWanted>,
        /// Create the queue with defaults when missing.
        auto_create: bool,
    },
    /// The same, of those messages only that the subscriber's filter takes; and where the path names a topic, from the
    /// subscriber's own subscription of it: made, or made anew, if there is none like it. Answer as of `OpenConsumer`,
    /// with the subscription's name.
    OpenSubscriber {
        consumer: LinkId,
        path: EntityPath,
        /// Receive mode, where the path names no topic.
        mode: ReceiveMode,
        /// Fate of its locks when it closes.
        unsettled: UnsettledPolicy,
        subscriber: Box<Subscriber>,
        /// Create the queue with defaults when missing.
        auto_create: bool,
    },
    /// Ask for a subscriber's subscription. Answer: `Effect::SubscriberFound` or `Effect::AttachRefused`. No link is
    /// opened.
    FindSubscriber {
        link: LinkId,
        /// As in [`Subscriber`].
        container: Box<str>,
        /// As in [`Subscriber`].
        name: Box<str>,
    },
    /// Delete a subscriber's subscription, unless a consumer receives from it. There is no answer.
    Unsubscribe {
        /// The subscription's whole name.
        subscription: Box<str>,
    },
    /// Give the link up; locks as its `UnsettledPolicy` says.
    CloseConsumer { consumer: LinkId },
    /// The same where the receiver has ended its link in order: what it gives back does not count as failed.
    LeaveConsumer { consumer: LinkId },
    /// Allow deliveries until the link's delivery-count reaches `limit` (an absolute count that starts at 0 with
    /// the link; it may go down). With `drain` the unused rest is given up at once and answered by
    /// `Effect::Drained`.
    Credit {
        consumer: LinkId,
        /// Deliveries since the link opened at which to stop.
        limit: u64,
        /// Use up what cannot be filled now.
        drain: bool,
    },
    /// Allow deliveries to this client until the bytes of message payload handed out since `Connect` reach
    /// `limit`. Before the first such command the limit is 0.
    ByteBudget {
        /// Absolute number of payload bytes.
        limit: u64,
        /// A payload that is shorter counts as so many bytes: what is known of a delivery takes room, too.
        min_bytes: u32,
    },
    /// Enqueue one message. Answer with a ticket: `Effect::Published` or `Effect::PublishRefused`.
    Publish {
        /// From `Effect::ProducerOpened`.
        queue: QueueId,
        message: Message,
        ticket: Option<Ticket>,
    },
    /// Enqueue several messages, all or none, with consecutive numbers. Answer as for `Publish`.
    PublishBatch {
        /// From `Effect::ProducerOpened`.
        queue: QueueId,
        /// In order; not empty.
        messages: Vec<Message>,
        ticket: Option<Ticket>,
    },
    /// Enqueue where `path` names the target (anonymous terminus). Answer as for `Publish`, with
    /// `PublishError::NotFound` for a missing entity.
    PublishTo {
        path: EntityPath,
        /// More than one for a batch message.
        messages: Vec<Message>,
        /// Create the queue with defaults when missing.
        auto_create: bool,
        ticket: Option<Ticket>,
    },
    /// Enqueue through another entity ("send via"). Messages that the target's status refuses go to the transfer dead
    /// letters of that entity. Answer as for `PublishTo`.
    PublishVia {
        path: EntityPath,
        via: EntityPath,
        /// More than one for a batch message.
        messages: Vec<Message>,
        ticket: Option<Ticket>,
    },
    /// Settle one delivery by its lock. Answer: `Effect::Settled` or `Effect::SettleRefused`. A completion without a
    /// ticket holds up nothing: if a crash comes before its record is durable, the message comes again.
    Settle {
        /// From the delivery.
        queue: QueueId,
        /// From the delivery.
        sequence: SequenceNumber,
        /// From the delivery.
        lock: LockId,
        outcome: Outcome,
        ticket: Option<Ticket>,
    },
    /// Settle by token, from any connection (`update-disposition`): all or none. Answer: `Effect::Settled` or
    /// `Effect::SettleRefused`.
    SettleByToken {
        /// The store that the management node belongs to.
        path: EntityPath,
        /// Session of the messages, as the receiver says: for a message that was removed no other record of it is left.
        session: Option<Box<str>>,
        tokens: Vec<LockToken>,
        /// Applied to each message.
        outcome: Outcome,
        ticket: Ticket,
    },
    /// Begin a transaction. Answer: `Effect::TransactionDone` or `Effect::TransactionRefused`.
    Declare {
        /// Its name, new to the client.
        transaction: TransactionId,
        ticket: Ticket,
    },
    /// Do a command when a transaction commits. It is checked and answered now, as outside of a transaction, but with
    /// `Effect::SettleRefused` where the transaction is the reason of a refusal that has no other answer. After a refusal the
    /// transaction can only be rolled back. Messages can be sent, scheduled, cancelled and settled in a transaction, and the
    /// state of a session can be set; with any other command the transaction fails. Payloads are copied, and the numbers of
    /// scheduled messages are given out at once and stay unused after a rollback.
    Enlist {
        transaction: TransactionId,
        command: Box<Self>,
        /// The receiver has settled the delivery of a `Settle` already. It holds nothing any more, so after a rollback the
        /// message returns and the delivery counts as failed. Else the lock is after a rollback as it was before.
        settled: bool,
    },
    /// The gateway has refused a part of a transaction, which can only be rolled back from now on. No answer.
    FailTransaction { transaction: TransactionId },
    /// Commit a transaction, or roll it back with `fail`. It ends in any case. Answer: `Effect::TransactionDone` or
    /// `Effect::TransactionRefused`; a commit that is refused has rolled back.
    Discharge {
        /// Which transaction of this client.
        transaction: TransactionId,
        /// Roll back.
        fail: bool,
        ticket: Option<Ticket>,
    },
    /// Extend locks to now + lock duration: all or none. Answer: `Effect::Renewed` or `Effect::SettleRefused`.
    RenewLocks {
        /// The store that the management node belongs to.
        path: EntityPath,
        tokens: Vec<LockToken>,
        ticket: Ticket,
    },
    /// Look without touching. Answer, at the next `deliver`: `Effect::Peeked` or `Effect::RequestRefused`.
    Peek {
        path: EntityPath,
        /// Only messages of this session.
        session: Option<Box<str>>,
        /// First number to show.
        from: SequenceNumber,
        /// At most this many messages, and at most what one `deliver` may show.
        count: u32,
        /// Stop before the payloads exceed this many bytes (but show at least one).
        bytes: u64,
        ticket: Ticket,
    },
    /// Enqueue messages, all or none, and say their numbers. One whose time has not come waits for it. Answer:
    /// `Effect::Scheduled` or `Effect::PublishRefused`.
    Schedule {
        path: EntityPath,
        /// In order; not empty.
        messages: Vec<Message>,
        ticket: Ticket,
    },
    /// Take scheduled messages back before their time: all or none. Answer: `Effect::Settled`, or
    /// `Effect::RequestRefused` where one of the numbers is not (or no longer) that of a scheduled message.
    CancelScheduled { path: EntityPath, sequences: Vec<SequenceNumber>, ticket: Ticket },
    /// Take deferred messages by number: all or none. Answer, at the next `deliver`: `Effect::Fetched` or
    /// `Effect::RequestRefused`.
    ReceiveDeferred {
        path: EntityPath,
        /// The session that they belong to, where the entity has sessions. A consumer of this client must hold it.
        session: Option<Box<str>>,
        /// Which messages. A number given twice counts once.
        sequences: Vec<SequenceNumber>,
        /// Take them for good, and not under a lock.
        delete: bool,
        /// Refuse more bytes of records than these for more than one message.
        bytes: u64,
        ticket: Ticket,
    },
    /// Delete messages of the retrieval order, oldest first. Locked, deferred and scheduled ones stay. Answer:
    /// `Effect::Deleted` or `Effect::RequestRefused`.
    DeleteMessages {
        path: EntityPath,
        /// Only messages of this session. Those of a session that another client holds stay in any case.
        session: Option<Box<str>>,
        /// At most so many.
        count: u32,
        /// Only those enqueued before this.
        before: Timestamp,
        ticket: Ticket,
    },
    /// Lock a session for its duration from now. Answer: `Effect::SessionRenewed` or `Effect::SessionRefused`.
    RenewSession {
        path: EntityPath,
        /// The session, which a consumer of this client must hold.
        session: Box<str>,
        ticket: Ticket,
    },
    /// Set the state of a session. Answer: `Effect::Settled` or `Effect::SessionRefused`.
    SetSessionState {
        path: EntityPath,
        /// The session, which a consumer of this client must hold.
        session: Box<str>,
        /// Any bytes, at most as many as a message of the entity may have; `None` clears it.
        state: Option<Bytes>,
        ticket: Ticket,
    },
    /// Read the state of a session. Answer: `Effect::SessionState` or `Effect::SessionRefused`.
    GetSessionState {
        path: EntityPath,
        /// The session, which a consumer of this client must hold unless it `looks_on`.
        session: Box<str>,
        /// The request is that of a browser, which holds no session: whoever holds it, its state is told.
        looks_on: bool,
        ticket: Ticket,
    },
    /// List the sessions with an active message or a state, or those whose state was set after some time. Answer:
    /// `Effect::SessionList` or `Effect::SessionRefused`.
    ListSessions {
        path: EntityPath,
        /// Sessions whose state was set later than this; `None`: those with an active message or a state.
        updated_after: Option<Timestamp>,
        /// Begin behind this session; at the first one where that is not there any more.
        after: Option<Box<str>>,
        /// Number of sessions to pass over.
        skip: u32,
        /// Most sessions to list; at most 4,096.
        top: u32,
        ticket: Ticket,
    },
    /// Create an entity. Answer: `Effect::EntityDone` or `Effect::RequestRefused`.
    CreateEntity {
        /// Its name; that of a subscription is `topic/Subscriptions/name`.
        name: Box<str>,
        kind: EntityKind,
        settings: Box<EntitySettings>,
        ticket: Ticket,
    },
    /// Create a subscription with these rules, perhaps none; `CreateEntity` gives it the rule `$Default`, which lets
    /// everything in. Answer as for `CreateEntity`.
    CreateSubscription {
        /// Its name: `topic/Subscriptions/name`.
        name: Box<str>,
        settings: Box<EntitySettings>,
        rules: Vec<Rule>,
        ticket: Ticket,
    },
    /// Give a subscription one more rule; later messages meet it. Answer as for `CreateEntity`.
    AddRule { path: EntityPath, rule: Box<Rule>, ticket: Ticket },
    /// Give the rule of that name this filter and this action, in one step: every message meets the rule as it was or
    /// as it is now. It keeps its name, its place and the time when it was made. Answer as for `CreateEntity`.
    UpdateRule {
        path: EntityPath,
        /// The rule as it is to be.
        rule: Box<Rule>,
        /// Refuse it unless the rule is this one still.
        expected: Option<Box<StoredRule>>,
        ticket: Ticket,
    },
    /// Take a rule away from a subscription. Answer as for `CreateEntity`.
    RemoveRule {
        path: EntityPath,
        name: Box<str>,
        /// Refuse it unless the rule is this one still.
        expected: Option<Box<StoredRule>>,
        ticket: Ticket,
    },
    /// Show the rule of that name, if there is one. Answer as for `ListRules`.
    ShowRule { path: EntityPath, name: Box<str>, ticket: Ticket },
    /// Show a subscription's rules in the order of their names. Answer: `Effect::Rules` or
    /// `Effect::RequestRefused`.
    ListRules {
        path: EntityPath,
        /// Number of rules to pass over.
        skip: u64,
        /// Most to list.
        top: u64,
        ticket: Ticket,
    },
    /// Set an entity's properties: what is left out has its default. Answer as for `CreateEntity`.
    UpdateEntity {
        name: Box<str>,
        /// Its properties from now on.
        settings: Box<EntitySettings>,
        /// Refuse it unless the entity is still the one that was described so.
        expected: Option<EntityVersion>,
        ticket: Ticket,
    },
    /// Look for the entity that a token of Service Bus is for. Answer as for `CreateEntity`: refused as `EntityError::NotFound` where it
    /// is missing, or has a name that Service Bus cannot spell.
    FindEntity {
        path: EntityPath,
        /// Entities whose names begin with this one's and a slash count, too.
        or_below: bool,
        /// An entity that would be created on demand counts as existing.
        auto_create: bool,
        ticket: Ticket,
    },
    /// Tell this client, and no other, of each change of an entity's authorization rules from now on:
    /// `Effect::KeysChanged`. No answer.
    WatchKeys,
    /// Show entities and their counts. Answer: `Effect::Described`.
    Describe { query: EntityQuery, ticket: Ticket },
    /// Delete an entity with its messages, a topic with its subscriptions; the links get
    /// `Effect::EntityDeleted`. Answer as for `CreateEntity`.
    DeleteEntity {
        name: Box<str>,
        /// Refuse it unless the entity has this version still.
        expected: Option<EntityVersion>,
        ticket: Ticket,
    },
}

impl Command {
    /// Gives back a message whose delivery never reached its receiver: the delivery does not count, and nobody waits for an
    /// answer.
    pub fn release(queue: QueueId, sequence: SequenceNumber, lock: LockId) -> Self {
        let outcome = Outcome::Release(Properties::default());
        Self::Settle { queue, sequence, lock, outcome, ticket: None }
    }

    /// The command as a part of a transaction. A delivery that it settles is one that its receiver has not settled.
    #[must_use]
    pub fn within(self, transaction: TransactionId) -> Self {
        Self::Enlist { transaction, command: Box::new(self), settled: false }
    }

    /// Messages, tokens and numbers beyond the first that this names: each is as much work as a command of its own.
    pub(crate) fn further_items(&self) -> usize {
        let items = match self {
            Self::PublishBatch { messages, .. }
            | Self::PublishTo { messages, .. }
            | Self::PublishVia { messages, .. }
            | Self::Schedule { messages, .. } => messages.len(),
            Self::SettleByToken { tokens, .. } | Self::RenewLocks { tokens, .. } => tokens.len(),
            Self::CancelScheduled { sequences, .. } => sequences.len(),
            Self::Enlist { command, .. } => return command.further_items(),
            _ => 1,
        };
        items.saturating_sub(1)
    }
}
