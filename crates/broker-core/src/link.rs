//! Clients and their links: producers, consumers, acceptors of sessions and subscribers of topics.
//!
//! Invariant: a link that was refused has changed nothing.

pub(crate) mod attachments;
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod subscribers;
pub(crate) mod table;
