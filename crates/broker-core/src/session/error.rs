//! Refusals of requests about sessions.
//!
//! Invariant: a request that is answered with an error has changed neither the session nor its state.

use crate::QuotaError;

/// Reason for which a request about a session was refused.
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
        bytes: u64,
        /// The entity's limit for a message.
        limit: u64,
    },
    /// There is no room for the state.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaError),
    /// The stored state could not be read back.
    #[error("the broker's storage failed")]
    Storage,
}
