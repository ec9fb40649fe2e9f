//! Namespaces as a shard sees them: definition, settings and limits, and the slot that their records carry.
//!
//! Invariant: a core knows nothing of this. Its node brings it the records of its own slot.

pub(crate) mod definition;
pub(crate) mod error;
pub(crate) mod limit;
pub(crate) mod name;
