//! Dynamic nodes: what an attach with `dynamic` asks for and is granted, and the nodes that a connection has.
//!
//! Invariant: the address of a dynamic node is known to its owner alone until the owner tells it.

pub(crate) mod pool;
pub(crate) mod refusal;
pub(crate) mod request;
pub(crate) mod table;
