//! Refusals because a quota or the disk is exhausted.
//!
//! Invariant: the same request can succeed once messages were removed.

/// Exhausted quota.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuotaError {
    #[error("`{entity}` holds {bytes} bytes and takes at most {limit}")]
    Entity { entity: Box<str>, bytes: u64, limit: u64 },
    /// The disk's reserve is reached.
    #[error("the broker's storage is full")]
    Storage,
}
