//! Sessions of entities: their locks, their holders and the requests about them (`docs/features/sessions.md`).
//!
//! Invariant: a session has one holder at most.

pub(crate) mod error;
pub(crate) mod holders;
pub(crate) mod requests;
