//! Administration of entities: creation, change, removal, rules, bulk deletion and what a management client is shown.
//!
//! Invariant: a refused request has changed nothing; showing entities changes nothing.

pub(crate) mod bulk_deletion;
pub(crate) mod describe;
pub(crate) mod dynamic;
pub(crate) mod entities;
pub(crate) mod node_kind;
pub(crate) mod removal;
pub(crate) mod rules;
pub(crate) mod snapshot;
pub(crate) mod update;
