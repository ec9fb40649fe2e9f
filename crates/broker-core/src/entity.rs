//! Entities: queues, topics and subscriptions, with their names, properties, rules and keys.
//!
//! Invariant: each name leads to one entity, and each entity has three message stores: its own, its dead letters and
//! its transfer dead letters.

pub(crate) mod agenda;
pub(crate) mod authorization;
pub(crate) mod auto_delete;
pub(crate) mod deletion_queue;
pub(crate) mod dynamic;
pub(crate) mod error;
pub(crate) mod index;
pub(crate) mod message_access;
pub(crate) mod name;
pub(crate) mod node_kind;
pub(crate) mod partition_numbers;
pub(crate) mod path;
pub(crate) mod property;
pub(crate) mod query;
pub(crate) mod rules;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod table;
