//! Why there is no room for what was to be stored.
//!
//! Invariant: whoever gets one of these may ask for the same again once something is gone.

/// What has no room.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuotaError {
    #[error("`{entity}` holds {bytes} bytes and takes at most {limit}")]
    Entity { entity: Box<str>, bytes: u64, limit: u64 },
    /// The disk's reserve is reached.
    #[error("the broker's storage is full")]
    Storage,
}
