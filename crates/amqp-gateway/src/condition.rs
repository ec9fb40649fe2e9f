//! AMQP error conditions and management status codes of refusals.
//!
//! Invariant: conditions and status codes are chosen here; no other file names a condition.

mod text;

use std::{borrow::Cow, sync::Arc, time::Duration};

use broker_core::{
    AttachError, CommitError, EntityError, PublishError, QuotaError, SessionError, SettleError,
    TransactionError,
};

use crate::{
    address::AddressError, connection::placement::PlacementRefusal, dialect::Dialect,
    dynamic::refusal::DynamicRefusal, fault_injection::table::FaultKind, link::selector::SelectorError,
    refusal_log::Severity,
};

/// An argument out of its form.
const ARGUMENT_ERROR: Name = ("com.microsoft:argument-error", 400);
/// An argument out of its range.
const ARGUMENT_OUT_OF_RANGE: Name = ("com.microsoft:argument-out-of-range", 400);
/// The same for a plain client.
const INVALID_FIELD: Name = ("amqp:invalid-field", 400);

/// Reason of a refusal, by the gateway or by the core.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// The core refused a link.
    Attach(AttachError),
    /// The core refused a message.
    Publish(PublishError),
    /// The core refused a settlement or renewal.
    Settle(SettleError),
    /// The core refused a request about an entity.
    Entity(EntityError),
    Address {
        address: String,
        error: AddressError,
    },
    /// The connection holds no claim for this, or no longer.
    Unauthorized {
        claim: &'static str,
        resource: String,
    },
    /// A token is no good.
    BadToken {
        reason: String,
    },
    /// The claim ran out while the link was in use.
    ClaimExpired {
        claim: &'static str,
        resource: String,
    },
    /// An address that is missing or no text, of a source or a target.
    NoAddress {
        terminus: &'static str,
    },
    /// A sender without target.
    NoTarget,
    /// A receiver without source: the lookup of a durable subscription.
    NoSubscription {
        name: String,
    },
    /// A selector that cannot be used.
    Selector(SelectorError),
    /// A dynamic node that is not created.
    Dynamic(DynamicRefusal),
    /// Capabilities, prefix or annotation that name a queue and a topic.
    TwoKinds,
    /// A declaration that is part of a distributed transaction.
    GlobalTransaction,
    /// A declaration that was sent settled, so that its name could not be told.
    SettledDeclare,
    /// A name that stands for no transaction.
    NoTransaction,
    /// A Service Bus transaction over several entities that is not a cross-entity one.
    SeveralEntities,
    /// A receiver of another entity than the first one of a session with cross-entity transactions.
    NotViaEntity {
        first: Box<str>,
    },
    /// A request that cannot be part of a transaction.
    NotInTransaction,
    /// A receiver that takes messages inside a transaction.
    TransactedReceive,
    /// The core did not declare or not commit a transaction.
    Commit(CommitError),
    /// The core refused a request about a session.
    Session(SessionError),
    /// A session filter that is neither a string nor null.
    SessionFilter,
    /// A session that several receivers want to share.
    SharedSession,
    /// A message for the anonymous terminus without `to`.
    NoTo,
    /// A message for the anonymous terminus whose `to` names nothing.
    BadTo {
        to: String,
        error: AddressError,
    },
    /// The sections of a message are not in the form that the standard demands.
    Malformed(String),
    /// A message annotation that the broker reads has another type than it must have.
    BadAnnotation {
        name: &'static str,
        wanted: &'static str,
    },
    /// More bytes than the link takes.
    TooLarge {
        bytes: u64,
        limit: u64,
    },
    /// A batch without messages, or with too many.
    BatchLength {
        messages: usize,
        limit: usize,
    },
    /// A delivery state that is no outcome.
    ForeignState,
    /// More open requests than a management link may have.
    TooManyRequests {
        limit: usize,
    },
    /// More bytes of answers than a client may leave unread.
    UnreadAnswers {
        limit: u64,
    },
    /// A link beyond the connection's limit.
    TooManyLinks {
        limit: usize,
    },
    /// A connection beyond the broker's limit.
    TooManyConnections {
        limit: usize,
    },
    /// A connection that gets no namespace, or whose namespace is no more to be used.
    Placement(PlacementRefusal),
    /// The namespace of the open refuses the log-in, or lets nobody in who uses no SASL.
    LogIn {
        namespace: Arc<str>,
        uses_sasl: bool,
    },
    /// The token of the log-in is over.
    LogInExpired {
        /// Seconds since 1970.
        expired_at: u64,
    },
    /// A management operation nobody knows.
    UnknownOperation {
        operation: String,
    },
    /// A management request lacks something, or has it in a wrong form.
    BadRequest {
        what: Cow<'static, str>,
    },
    /// A number of a management request is out of its range.
    OutOfRange {
        field: &'static str,
        value: i64,
        allowed: &'static str,
    },
    /// One application property is too large.
    PropertyTooLarge {
        name: String,
        bytes: usize,
        limit: usize,
    },
    /// All that stands before the body is too large.
    PropertiesTooLarge {
        bytes: usize,
        limit: usize,
    },
    /// A name that the broker reads is too long.
    TooLong {
        field: &'static str,
        chars: usize,
        limit: usize,
    },
    /// The entity behind an open link was switched off for it.
    EntityDisabled {
        entity: String,
    },
    /// The entity behind an open link was deleted.
    EntityDeleted {
        entity: String,
    },
    /// The same client has attached the link on another connection.
    Stolen,
    /// Nothing has happened on a link for so long.
    Idle {
        time_out: Duration,
    },
    /// A fault that a test has ordered.
    Fault(FaultKind),
    ShuttingDown,
    /// The broker has failed, and shuts down.
    Failed,
    /// Somebody who manages the broker has ended the connection.
    Ended,
    /// The core gave a kind of answer that does not belong to the question. A bug of ours.
    Unexpected,
}

/// A refusal's names on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Named {
    pub(crate) condition: &'static str,
    /// The status code of a management node.
    pub(crate) status: i32,
}

impl Refusal {
    /// The weight for an operator: receivers that wait for a session, links that idle, namespaces that an operator has held
    /// or deleted and a broker that ends are refused in the usual course of things.
    pub(crate) const fn severity(&self) -> Severity {
        match self {
            Self::Attach(AttachError::SessionTimeout)
            | Self::Idle { .. }
            | Self::Placement(PlacementRefusal::OnHold { .. } | PlacementRefusal::Deleted { .. })
            | Self::ShuttingDown
            | Self::Ended => Severity::Routine,
            _ => Severity::Warning,
        }
    }

    /// Condition and status code.
    pub(crate) fn named(&self) -> Named {
        let (condition, status) = match self {
            Self::Attach(error) => attach(error),
            Self::Publish(error) => publish(error),
            Self::Settle(error) => settle(*error),
            Self::Entity(error) => entity(error),
            Self::Session(error) => session(error),
            Self::Commit(CommitError::Transaction(error)) => transaction(*error),
            Self::Commit(
                CommitError::Publish(_)
                | CommitError::Settle(_)
                | CommitError::Cancel(_)
                | CommitError::Session(_),
            ) => ("amqp:transaction:rollback", 400),
            Self::NoSubscription { .. } => ("amqp:not-found", 404),
            Self::Dynamic(refusal) => dynamic(*refusal),
            Self::SeveralEntities
            | Self::NotViaEntity { .. }
            | Self::NotInTransaction
            | Self::SharedSession => ("amqp:not-allowed", 400),
            Self::TooManyRequests { .. }
            | Self::UnreadAnswers { .. }
            | Self::TooManyLinks { .. }
            | Self::TooManyConnections { .. } => ("amqp:resource-limit-exceeded", 403),
            Self::Placement(refusal) => placement(refusal),
            Self::TooLarge { .. } | Self::PropertyTooLarge { .. } | Self::PropertiesTooLarge { .. } => {
                ("amqp:link:message-size-exceeded", 400)
            }
            Self::EntityDisabled { .. } => ("com.microsoft:entity-disabled", 403),
            Self::OutOfRange { .. } | Self::TooLong { .. } | Self::BatchLength { .. } => {
                ARGUMENT_OUT_OF_RANGE
            }
            Self::BadRequest { .. } | Self::BadAnnotation { .. } => ARGUMENT_ERROR,
            Self::Unauthorized { .. }
            | Self::ClaimExpired { .. }
            | Self::BadToken { .. }
            | Self::LogIn { .. }
            | Self::LogInExpired { .. } => ("amqp:unauthorized-access", 401),
            Self::NoAddress { .. }
            | Self::NoTarget
            | Self::Selector(_)
            | Self::SessionFilter
            | Self::SettledDeclare
            | Self::TwoKinds
            | Self::ForeignState => ("amqp:invalid-field", 400),
            Self::Address { error, .. } => match error {
                AddressError::Exchange => ("amqp:not-implemented", 501),
                AddressError::Empty
                | AddressError::BadEscape
                | AddressError::NotUtf8
                | AddressError::Name(_)
                | AddressError::NotAQueue => ("amqp:invalid-field", 400),
            },
            Self::NoTo | Self::BadTo { .. } => ("amqp:precondition-failed", 400),
            Self::GlobalTransaction | Self::TransactedReceive | Self::UnknownOperation { .. } => {
                ("amqp:not-implemented", 501)
            }
            Self::NoTransaction => ("amqp:transaction:unknown-id", 400),
            Self::Malformed(_) => ("amqp:decode-error", 400),
            Self::Stolen => ("amqp:link:stolen", 409),
            Self::Idle { .. } => ("amqp:link:detach-forced", 503),
            Self::EntityDeleted { .. } => ("amqp:resource-deleted", 404),
            Self::Fault(kind) => fault(*kind),
            Self::ShuttingDown | Self::Ended => ("amqp:connection:forced", 503),
            Self::Failed | Self::Unexpected => ("amqp:internal-error", 500),
        };
        Named { condition, status }
    }
}

impl Refusal {
    /// The condition for a peer of this dialect. An argument that is no good has a condition of AMQP itself, which a plain client
    /// knows. What AMQP has no condition for, such as a lock that has ended, keeps that of Service Bus.
    pub(crate) fn condition_for(&self, dialect: Dialect) -> &'static str {
        let condition = self.named().condition;
        let is_argument = condition == ARGUMENT_ERROR.0 || condition == ARGUMENT_OUT_OF_RANGE.0;
        if dialect == Dialect::Plain && is_argument { INVALID_FIELD.0 } else { condition }
    }
}

/// The name of an ordered fault: what the service would say.
const fn fault(kind: FaultKind) -> (&'static str, i32) {
    match kind {
        FaultKind::ServerBusy => ("com.microsoft:server-busy", 503),
        FaultKind::DropLink => ("amqp:link:detach-forced", 503),
        FaultKind::DropConnection => ("amqp:connection:forced", 503),
        FaultKind::LoseLock => ("com.microsoft:message-lock-lost", 410),
        FaultKind::RejectSettlement | FaultKind::DelaySettlement(_) => ("amqp:internal-error", 500),
    }
}

/// The name of a connection without a namespace. SDKs take a not-found for final, and wait before they try again where
/// the server is busy (decision 46).
const fn placement(refusal: &PlacementRefusal) -> (&'static str, i32) {
    match refusal {
        PlacementRefusal::Unknown { .. } | PlacementRefusal::Deleted { .. } => ("amqp:not-found", 404),
        PlacementRefusal::OnHold { .. } => ("com.microsoft:server-busy", 503),
        PlacementRefusal::Recovering { .. } => ("amqp:connection:forced", 503),
        PlacementRefusal::TooManyConnections { .. } | PlacementRefusal::BeyondShare { .. } => {
            ("amqp:resource-limit-exceeded", 403)
        }
    }
}

/// The name of a failure that has to do with the transaction itself.
const fn transaction(error: TransactionError) -> (&'static str, i32) {
    match error {
        TransactionError::Unknown => ("amqp:transaction:unknown-id", 400),
        TransactionError::TimedOut => ("amqp:transaction:timeout", 408),
        TransactionError::Failed => ("amqp:transaction:rollback", 400),
        TransactionError::TooManyMessages { .. } | TransactionError::InUse => ("amqp:not-allowed", 400),
        TransactionError::LimitReached { .. } => ("amqp:resource-limit-exceeded", 403),
        TransactionError::AlreadyDeclared => ("amqp:internal-error", 500),
    }
}

/// The name of a dynamic node that is not created.
const fn dynamic(refusal: DynamicRefusal) -> (&'static str, i32) {
    match refusal {
        DynamicRefusal::Address | DynamicRefusal::Lifetime | DynamicRefusal::DistributionModes => {
            ("amqp:invalid-field", 400)
        }
        DynamicRefusal::ConnectionLimit { .. } | DynamicRefusal::BrokerLimit { .. } => {
            ("amqp:resource-limit-exceeded", 403)
        }
    }
}

/// Condition and status code.
type Name = (&'static str, i32);

fn attach(error: &AttachError) -> Name {
    match error {
        AttachError::NotFound(_) => ("amqp:not-found", 404),
        AttachError::SubQueueSend(_)
        | AttachError::Forwards(_)
        | AttachError::SubscriptionSend(_)
        | AttachError::TopicReceive(_)
        | AttachError::SessionRequired(_)
        | AttachError::NoSessions(_)
        | AttachError::WrongKind { .. }
        | AttachError::SubQueueSession(_) => ("amqp:not-allowed", 400),
        AttachError::SubscriptionInUse(_) | AttachError::NotOwner(_) => ("amqp:resource-locked", 409),
        AttachError::Subscription(error) | AttachError::NotCreated(error) => entity(error),
        AttachError::SessionLocked(_) => ("com.microsoft:session-cannot-be-locked", 410),
        AttachError::SessionTimeout => ("com.microsoft:timeout", 408),
        AttachError::SessionIdTooLong { .. } => ARGUMENT_OUT_OF_RANGE,
        AttachError::LimitReached { .. } => ("amqp:resource-limit-exceeded", 403),
        AttachError::Disabled(_) => ("com.microsoft:entity-disabled", 403),
        AttachError::InvalidName(_) => ("amqp:invalid-field", 400),
    }
}

fn publish(error: &PublishError) -> Name {
    match error {
        PublishError::NotFound(_) => ("amqp:not-found", 404),
        PublishError::SubQueueSend(_)
        | PublishError::SubscriptionSend(_)
        | PublishError::WrongKind { .. }
        | PublishError::SessionRequired(_)
        | PublishError::PartitionKey(_) => ("amqp:not-allowed", 400),
        PublishError::SessionIdTooLong { .. } => ARGUMENT_OUT_OF_RANGE,
        PublishError::QuotaExceeded(error) => quota_error(error),
        PublishError::TooManyCopies { .. } | PublishError::TooMuchAtOnce { .. } => {
            ("amqp:resource-limit-exceeded", 403)
        }
        PublishError::HistoryFull { .. } => ("com.microsoft:server-busy", 503),
        PublishError::TooLarge { .. } => ("amqp:link:message-size-exceeded", 400),
        PublishError::Disabled(_) => ("com.microsoft:entity-disabled", 403),
        PublishError::Transaction(error) => transaction(*error),
    }
}

/// One condition for whatever has no room, until something is gone.
const fn quota_error(error: &QuotaError) -> Name {
    match error {
        QuotaError::Entity { .. }
        | QuotaError::Namespace { .. }
        | QuotaError::Memory
        | QuotaError::Storage => ("amqp:resource-limit-exceeded", 403),
    }
}

fn settle(error: SettleError) -> Name {
    match error {
        SettleError::EntityGone => ("amqp:not-found", 404),
        SettleError::AlreadyDeadLetter | SettleError::LockedBySession => ("amqp:not-allowed", 400),
        SettleError::SessionLockLost => SESSION_LOST,
        SettleError::EntityDisabled => ("com.microsoft:entity-disabled", 403),
        SettleError::LockLost => ("com.microsoft:message-lock-lost", 410),
        SettleError::TooMuchAtOnce { .. } => ("amqp:resource-limit-exceeded", 403),
        SettleError::Transaction(error) => transaction(error),
        SettleError::Storage => ("amqp:internal-error", 500),
    }
}

fn entity(error: &EntityError) -> Name {
    match error {
        EntityError::NotFound(_) | EntityError::RuleNotFound(_) => ("amqp:not-found", 404),
        EntityError::Immutable { .. }
        | EntityError::SessionRequired(_)
        | EntityError::HasPartitions(_)
        | EntityError::NotInProfile { .. }
        | EntityError::NotASubscription(_) => ("amqp:not-allowed", 400),
        EntityError::SessionLockLost => SESSION_LOST,
        EntityError::QuotaExceeded(error) => quota_error(error),
        EntityError::LimitReached { .. } => ("amqp:resource-limit-exceeded", 403),
        EntityError::Disabled(_) => ("com.microsoft:entity-disabled", 403),
        EntityError::Changed(_) => ("amqp:precondition-failed", 412),
        EntityError::AlreadyExists(_) | EntityError::RuleExists(_) => {
            ("com.microsoft:entity-already-exists", 409)
        }
        EntityError::MessageNotFound { .. } => ("com.microsoft:message-not-found", 404),
        EntityError::OutOfRange { .. } | EntityError::AnswerTooLarge { .. } => ARGUMENT_OUT_OF_RANGE,
        EntityError::ForwardTarget { .. } | EntityError::ForwardTargetMissing { .. } => ARGUMENT_ERROR,
        EntityError::InvalidName(_) => ("amqp:invalid-field", 400),
        EntityError::Storage => ("amqp:internal-error", 500),
    }
}

const SESSION_LOST: Name = ("com.microsoft:session-lock-lost", 410);

fn session(error: &SessionError) -> Name {
    match error {
        SessionError::NotFound(_) => ("amqp:not-found", 404),
        SessionError::Disabled(_) => ("com.microsoft:entity-disabled", 403),
        SessionError::NoSessions(_) => ("amqp:not-allowed", 400),
        SessionError::LockLost => SESSION_LOST,
        SessionError::StateTooLarge { .. } => ("amqp:link:message-size-exceeded", 400),
        SessionError::QuotaExceeded(error) => quota_error(error),
        SessionError::Storage => ("amqp:internal-error", 500),
    }
}

/// The condition beside status 204 when there are no sessions, or no more. To clients that is an empty list.
pub(crate) const NO_SESSION: &str = "com.microsoft:session-not-found";

#[cfg(test)]
mod tests;
