//! Why requests about sessions are refused.
//!
//! Invariant: whoever gets one of these knows that the session and its state are as they were.

use crate::QuotaError;

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
