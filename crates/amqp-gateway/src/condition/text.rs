//! Texts of refusals, for the person who reads the exception.
//!
//! Invariant: whole sentences, with the names and numbers that were refused and no secret.

use amqp_codec::text::cut;
use broker_core::{
    AttachError, CommitError, EntityError, PublishError, SessionError, SettleError, is_dynamic_name,
};

use crate::{condition::Refusal, connection::placement::PlacementRefusal};

const SETTLED_DECLARE: &str = "A transaction must be declared unsettled, to be told its name.";

const SEVERAL_ENTITIES: &str = "A transaction is on one entity, unless cross-entity transactions are enabled: then all \
                                of it goes over one session, or is sent via the first entity.";

/// The SDK for .NET looks for the first sentence.
const SHARED_SESSION: &str = "The source contains invalid filter type. System only support Jms or Apache selector filter type. \
                              Sessions cannot be shared between receivers.";

const NO_TARGET: &str = "The link has no target. A sender to the anonymous terminus has one without address.";

const TWO_KINDS: &str = "The link or message asks for a queue and for a topic at once.";

const LOCK_LOST: &str = "The lock supplied is invalid. Either the lock expired, or the message has already been \
                         removed from the queue, or was received by a different receiver instance.";

const SESSION_LOCK_LOST: &str =
    "The session lock has expired on the MessageSession. Accept a new MessageSession.";

fn disabled(entity: &str) -> String {
    format!("The messaging entity '{entity}' has been disabled for this operation.")
}

fn not_via_entity(first: &str) -> String {
    format!(
        "The transactions of this session go through the entity '{first}', its first one, so it can only receive from \
         that. Receive from the other entity first, or with another client."
    )
}

impl Refusal {
    /// The sentence for the person who reads the exception.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Attach(AttachError::NotFound(name))
            | Self::Publish(PublishError::NotFound(name))
            | Self::Session(SessionError::NotFound(name))
            | Self::Entity(EntityError::NotFound(name)) => not_found(name),
            Self::Settle(SettleError::SessionLockLost)
            | Self::Entity(EntityError::SessionLockLost)
            | Self::Session(SessionError::LockLost) => SESSION_LOCK_LOST.to_owned(),
            Self::Session(error) => sentence(error),
            Self::Attach(error) => sentence(error),
            Self::Publish(error) => sentence(error),
            Self::Settle(SettleError::LockLost) => LOCK_LOST.to_owned(),
            Self::Settle(error) => sentence(error),
            Self::Entity(error) => entity_text(error),
            Self::Address { address, error } => format!("The address '{address}' is not valid: {error}."),
            Self::Unauthorized { claim, resource } => unauthorized(claim, resource),
            Self::BadToken { reason } => format!("{}.", reason.trim_end_matches('.')),
            Self::ClaimExpired { claim, resource } => {
                format!("The token for this link has expired. {}", unauthorized(claim, resource))
            }
            Self::NoAddress { terminus } => format!("The {terminus} has no address that is a text."),
            Self::NoTarget => NO_TARGET.to_owned(),
            Self::NoSubscription { name } => format!("No subscription named '{name}' could be found."),
            Self::Selector(error) => sentence(error),
            Self::TwoKinds => TWO_KINDS.to_owned(),
            Self::Dynamic(refusal) => sentence(refusal),
            Self::GlobalTransaction => "Distributed transactions are not supported.".to_owned(),
            Self::SettledDeclare => SETTLED_DECLARE.to_owned(),
            Self::SeveralEntities => SEVERAL_ENTITIES.to_owned(),
            Self::NotViaEntity { first } => not_via_entity(first),
            Self::NotInTransaction => "The operation cannot be part of a transaction.".to_owned(),
            Self::TransactedReceive => "Messages cannot be received inside a transaction.".to_owned(),
            Self::Commit(CommitError::Transaction(error)) => sentence(error),
            Self::Commit(error) => format!("The transaction was rolled back. {}", sentence(error)),
            Self::NoTransaction => "The transaction does not exist.".to_owned(),
            Self::SessionFilter => "The session filter must be a string or null.".to_owned(),
            Self::SharedSession => SHARED_SESSION.to_owned(),
            Self::NoTo => "The anonymous terminus requires the 'to' property to be set.".to_owned(),
            Self::BadTo { to, error } => format!("The 'to' address '{to}' is not valid: {error}."),
            Self::Malformed(reason) => format!("The message could not be decoded: {reason}."),
            Self::BadAnnotation { name, wanted } => {
                format!("The message annotation '{name}' must be {wanted}.")
            }
            Self::ForeignState => "The delivery state is not an outcome that the source offers.".to_owned(),
            Self::UnknownOperation { operation } => format!("The operation '{operation}' is not supported."),
            Self::BadRequest { what } => format!("The request is not valid: {what}."),
            Self::OutOfRange { field, value, allowed } => {
                format!("The request is not valid: '{field}' is {value}, allowed are {allowed}.")
            }
            Self::EntityDisabled { entity } => disabled(entity),
            Self::Stolen => "The link was attached anew on another connection.".to_owned(),
            Self::Idle { time_out } => format!("Nothing has happened on the link for {time_out:?}."),
            Self::EntityDeleted { entity } => format!("The messaging entity '{entity}' has been deleted."),
            Self::Fault(_) => "A test has ordered this fault.".to_owned(),
            Self::LogInExpired { expired_at } => login_expired(*expired_at),
            Self::Placement(_) | Self::LogIn { .. } | Self::ShuttingDown | Self::Failed | Self::Ended => {
                self.close_text()
            }
            Self::TooLarge { .. }
            | Self::BatchLength { .. }
            | Self::TooManyRequests { .. }
            | Self::UnreadAnswers { .. }
            | Self::TooManyLinks { .. }
            | Self::TooManyConnections { .. }
            | Self::PropertyTooLarge { .. }
            | Self::PropertiesTooLarge { .. }
            | Self::TooLong { .. } => self.beyond_limit(),
            Self::Unexpected => "The broker met an internal error.".to_owned(),
        }
    }

    /// Text for an exceeded limit.
    fn beyond_limit(&self) -> String {
        match self {
            Self::TooLarge { bytes, limit } => {
                format!("The message has {bytes} bytes; the link takes at most {limit}.")
            }
            Self::BatchLength { messages, limit } => {
                format!("The batch has {messages} messages; allowed are 1 to {limit}.")
            }
            Self::TooManyRequests { limit } => format!("More than {limit} requests wait on this link."),
            Self::UnreadAnswers { limit } => {
                format!("More than {limit} bytes of answers were asked for and are not read.")
            }
            Self::TooManyLinks { limit } => format!("The connection has {limit} links, as many as it may."),
            Self::TooManyConnections { limit } => {
                format!(
                    "ConnectionsQuotaExceeded for namespace: it has {limit} connections, as many as it may."
                )
            }
            Self::PropertyTooLarge { name, bytes, limit } => {
                format!("The property '{name}' has {bytes} bytes; allowed are at most {limit}.")
            }
            Self::PropertiesTooLarge { bytes, limit } => {
                format!("The message's properties have {bytes} bytes; allowed are at most {limit}.")
            }
            Self::TooLong { field, chars, limit } => too_long(field, *chars, *limit),
            _ => String::new(),
        }
    }

    /// Text for the end of a connection.
    fn close_text(&self) -> String {
        match self {
            Self::Placement(refusal) => placement(refusal),
            Self::LogIn { namespace, uses_sasl: true } => {
                format!("Unauthorized access. The namespace '{namespace}' does not accept the log-in.")
            }
            Self::LogIn { namespace, uses_sasl: false } => {
                format!("Unauthorized access. The namespace '{namespace}' demands a log-in by SASL.")
            }
            Self::Ended => "The connection was closed by an operator.".to_owned(),
            Self::Failed => "The broker has failed and is shutting down.".to_owned(),
            _ => "The broker is shutting down.".to_owned(),
        }
    }
}

fn too_long(field: &str, chars: usize, limit: usize) -> String {
    format!("'{field}' has {chars} characters; allowed are at most {limit}.")
}

/// JS and Java take a missing namespace for final by the first words.
fn placement(refusal: &PlacementRefusal) -> String {
    match refusal {
        PlacementRefusal::Unknown { hostname } => format!(
            "The messaging entity '{}' could not be found: no namespace has this host name.",
            cut(hostname, HOSTNAME_BYTES_MAX)
        ),
        PlacementRefusal::Deleted { namespace } => {
            format!("The messaging entity '{namespace}' could not be found: the namespace has been deleted.")
        }
        PlacementRefusal::OnHold { namespace } => {
            format!("The namespace '{namespace}' is held for maintenance. Try again later.")
        }
        PlacementRefusal::Recovering { namespace } => {
            format!("The namespace '{namespace}' recovers from a failure of the broker. Connect again.")
        }
        PlacementRefusal::TooManyConnections { namespace, limit } => format!(
            "ConnectionsQuotaExceeded for namespace: '{namespace}' has {limit} connections, as many as it may."
        ),
        PlacementRefusal::BeyondShare { namespace, connections } => format!(
            "ConnectionsQuotaExceeded for namespace: '{namespace}' has {connections} connections, and the last ones that the \
             broker takes are kept for others."
        ),
    }
}

/// Longest host name in a text, in bytes: that of DNS.
const HOSTNAME_BYTES_MAX: usize = 253;

/// JS and Java recognise a missing entity by the first sentence.
fn not_found(name: &str) -> String {
    if is_dynamic_name(name) {
        return format!(
            "The messaging entity '{name}' could not be found. A dynamic node is deleted with the link or the connection that asked for it."
        );
    }
    format!(
        "The messaging entity '{name}' could not be found. Declare it in the broker's configuration, or start the \
         broker with '--auto-create' to let clients create queues."
    )
}

/// The SDKs know a missing entity by the first sentence.
fn entity_text(error: &EntityError) -> String {
    match error {
        EntityError::RuleNotFound(name) => format!(
            "The messaging entity '{name}' could not be found. The subscription has no rule of that name."
        ),
        EntityError::RuleExists(name) => {
            format!("The messaging entity '{name}' already exists: the subscription has a rule of that name.")
        }
        error => sentence(error),
    }
}

fn login_expired(expired_at: u64) -> String {
    format!("ExpiredToken: The token of the log-in is expired. Expiration time: {expired_at} (Unix seconds).")
}

fn unauthorized(claim: &str, resource: &str) -> String {
    format!(
        "Unauthorized access. '{claim}' claim(s) are required to perform this operation. Resource: '{resource}'."
    )
}

/// The core's text as a sentence.
fn sentence(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect::<String>().replace('`', "'")
}
