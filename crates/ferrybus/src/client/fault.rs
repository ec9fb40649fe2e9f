//! Errors of the peer, in one sentence.
//!
//! Invariant: the broker's own words come first; a library's `Debug` text is never shown.

use fe2o3_amqp::{
    connection::{ConnectionStopReason, OpenError},
    link::{
        DetachError, LinkStateError, ReceiverAttachError, RecvError, SendError, SenderAttachError,
        SessionStopReason,
    },
    session::BeginError,
};
use fe2o3_amqp_types::{
    definitions::{Error, ErrorCondition},
    messaging::Outcome,
    primitives::Symbol,
    sasl::SaslCode,
};

use crate::failure::Failure;

/// Something that can say what went wrong.
pub(super) trait ErrorText {
    /// One sentence.
    fn text(&self) -> String;
}

/// Puts what was tried in front.
pub(super) fn fault(what: &str, error: &impl ErrorText) -> Failure {
    Failure::new(format_args!("{what}: {}", error.text()))
}

/// Too slow an answer.
pub(super) fn too_slow(what: &str) -> Failure {
    Failure::new(format_args!("{what}: no answer in {} seconds", super::connect::RESPONSE_TIMEOUT.as_secs()))
}

impl ErrorText for Error {
    fn text(&self) -> String {
        let condition = condition(&self.condition);
        match self.description.as_deref().filter(|text| !text.is_empty()) {
            Some(description) => format!("{description} ({condition})"),
            None => condition,
        }
    }
}

/// The name of an error condition, as it stands on the wire.
pub(super) fn condition(condition: &ErrorCondition) -> String {
    let symbol = match condition {
        ErrorCondition::AmqpError(error) => Symbol::from(error),
        ErrorCondition::ConnectionError(error) => Symbol::from(error),
        ErrorCondition::SessionError(error) => Symbol::from(error),
        ErrorCondition::LinkError(error) => Symbol::from(error),
        ErrorCondition::TransactionError(error) => Symbol::from(error),
        ErrorCondition::Custom(symbol) => symbol.clone(),
    };
    symbol.into_inner()
}

/// `None` for an accepted message.
pub(super) fn refusal(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Accepted(_) => None,
        Outcome::Rejected(rejected) => {
            Some(rejected.error.as_ref().map_or_else(|| "rejected without a reason".into(), ErrorText::text))
        }
        Outcome::Released(_) => Some("released: the broker did not take it".into()),
        Outcome::Modified(_) => Some("modified: the broker did not take it".into()),
        Outcome::Declared(_) => Some("declared: the broker took it for the begin of a transaction".into()),
    }
}

impl ErrorText for OpenError {
    fn text(&self) -> String {
        match self {
            Self::Io(error) => error.to_string(),
            Self::SaslError { code: SaslCode::Auth, .. } => "the broker refused the log-in".into(),
            Self::SaslError { .. } => "the broker cannot judge the log-in now".into(),
            Self::ProtocolHeaderMismatch(_) => "the other end does not speak AMQP 1.0 (is it TLS?)".into(),
            Self::RemoteClosedWithError(error) => error.text(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for BeginError {
    fn text(&self) -> String {
        match self {
            Self::ConnectionStopped(reason) => reason.text(),
            Self::RemoteEndedWithError(error) => error.text(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for ConnectionStopReason {
    fn text(&self) -> String {
        match self {
            Self::ClosedWithError(error) | Self::RemoteClosedWithError(error) => error.text(),
            Self::Closed => "the connection is closed".into(),
            Self::RemoteClosed => "the broker closed the connection".into(),
        }
    }
}

impl ErrorText for SessionStopReason {
    fn text(&self) -> String {
        match self {
            Self::EndedWithError(error) | Self::RemoteEndedWithError(error) => error.text(),
            Self::Ended => "the session has ended".into(),
            Self::RemoteEnded => "the broker ended the session".into(),
            Self::ConnectionStopped(reason) => reason.text(),
        }
    }
}

impl ErrorText for SenderAttachError {
    fn text(&self) -> String {
        match self {
            Self::SessionStopped(reason) => reason.text(),
            Self::RemoteClosedWithError(error) => error.text(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for ReceiverAttachError {
    fn text(&self) -> String {
        match self {
            Self::SessionStopped(reason) => reason.text(),
            Self::RemoteClosedWithError(error) => error.text(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for LinkStateError {
    fn text(&self) -> String {
        match self {
            Self::SessionStopped(reason) => reason.text(),
            Self::RemoteDetachedWithError(error) | Self::RemoteClosedWithError(error) => error.text(),
            Self::RemoteDetached | Self::RemoteClosed => "the broker closed the link".into(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for DetachError {
    fn text(&self) -> String {
        match self {
            Self::SessionStopped(reason) => reason.text(),
            Self::RemoteDetachedWithError(error) | Self::RemoteClosedWithError(error) => error.text(),
            Self::ClosedByRemote => "the broker closed the link".into(),
            other => other.to_string(),
        }
    }
}

impl ErrorText for SendError {
    fn text(&self) -> String {
        match self {
            Self::LinkStateError(error) => error.text(),
            Self::Detached(error) => error.text(),
            Self::MessageSizeExceeded(error) => {
                format!("the message has {} bytes, the queue takes at most {}", error.size, error.max_size)
            }
            other => other.to_string(),
        }
    }
}

impl ErrorText for RecvError {
    fn text(&self) -> String {
        match self {
            Self::LinkStateError(error) => error.text(),
            other => other.to_string(),
        }
    }
}
