//! The error conditions of the transport (2.8.15 to 2.8.18), by name.
//!
//! Invariant: the only module that spells a condition.

use amqp_codec::performative::Error;
use amqp_codec::types::Symbol;

macro_rules! conditions {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        $($(#[$doc])* pub const $name: Symbol = Symbol::from_static($word);)*
    };
}

conditions! {
    /// We are at fault.
    INTERNAL_ERROR = "amqp:internal-error";
    /// There is no such node.
    NOT_FOUND = "amqp:not-found";
    /// The peer may not do this.
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
    /// Bytes could not be decoded.
    DECODE_ERROR = "amqp:decode-error";
    /// A quota or limit of ours is exhausted.
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
    /// The protocol forbids it here.
    NOT_ALLOWED = "amqp:not-allowed";
    /// A field has a value it must not have.
    INVALID_FIELD = "amqp:invalid-field";
    /// We do not do this.
    NOT_IMPLEMENTED = "amqp:not-implemented";
    /// Somebody else holds it.
    RESOURCE_LOCKED = "amqp:resource-locked";
    /// A precondition does not hold.
    PRECONDITION_FAILED = "amqp:precondition-failed";
    /// The node was deleted.
    RESOURCE_DELETED = "amqp:resource-deleted";
    /// Not possible in this state.
    ILLEGAL_STATE = "amqp:illegal-state";
    /// A frame we have to send does not fit the peer's limit.
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
    /// An operator or a shutdown closed the connection.
    CONNECTION_FORCED = "amqp:connection:forced";
    /// A frame is malformed, or on a channel it may not use.
    FRAMING_ERROR = "amqp:connection:framing-error";
    /// The peer is to connect elsewhere.
    CONNECTION_REDIRECT = "amqp:connection:redirect";
    /// The peer ignored the session's window.
    WINDOW_VIOLATION = "amqp:session:window-violation";
    /// Input for a link that was detached with an error.
    ERRANT_LINK = "amqp:session:errant-link";
    /// The handle already belongs to a link.
    HANDLE_IN_USE = "amqp:session:handle-in-use";
    /// The handle belongs to no link.
    UNATTACHED_HANDLE = "amqp:session:unattached-handle";
    /// An operator detached the link.
    DETACH_FORCED = "amqp:link:detach-forced";
    /// More deliveries than link credit.
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
    /// A message larger than the link takes.
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
    /// The link was attached elsewhere under the same name.
    STOLEN = "amqp:link:stolen";
}

/// An error with a sentence and no further information.
pub(crate) fn error(condition: Symbol, description: impl Into<String>) -> Error {
    Error { condition, description: Some(description.into()), info: None }
}
