//! The way of a message out of stores: dispatch to consumers, selectors, browsing, peeking and deferred messages.
//!
//! Invariant: one call delivers a bounded number of messages and bytes; the rest waits for the next call.

pub(crate) mod budget;
pub(crate) mod deferred;
pub(crate) mod delivery;
pub(crate) mod dispatcher;
pub(crate) mod peek;
pub(crate) mod pending_read;
pub(crate) mod receiving;
pub(crate) mod select;
