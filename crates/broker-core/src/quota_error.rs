//! Why there is no room for what was to be stored.
//!
//! Invariant: whoever gets one of these may ask for the same again once something is gone.

/// What has no room.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuotaError {
    /// The entity is full.
    #[error("`{entity}` holds {bytes} bytes and takes at most {limit}")]
    Entity {
        /// The entity's name.
        entity: Box<str>,
        /// What it holds.
        bytes: u64,
        /// Its limit.
        limit: u64,
    },
    /// The disk's reserve is reached.
    #[error("the broker's storage is full")]
    Storage,
}
