//! Refusals because a quota or the disk is exhausted.
//!
//! Invariant: the same request can succeed once messages were removed.

/// Exhausted quota.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuotaError {
    #[error("`{entity}` holds {bytes} bytes and takes at most {limit}")]
    Entity { entity: Box<str>, bytes: u64, limit: u64 },
    /// The namespace has a limit, and its records are as large.
    #[error("the namespace holds {bytes} bytes and takes at most {limit}")]
    Namespace { bytes: u64, limit: u64 },
    /// The process uses as much memory as it may.
    #[error("the broker's memory is full")]
    Memory,
    /// The disk's reserve is reached.
    #[error("the broker's storage is full")]
    Storage,
}
