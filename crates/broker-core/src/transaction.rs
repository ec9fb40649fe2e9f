//! Transactions: what a client may enlist, and how it commits or rolls back (`docs/features/transactions.md`).
//!
//! Invariant: all operations of a transaction are done in one call, or none is.

pub(crate) mod enlist;
pub(crate) mod error;
pub(crate) mod manager;
pub(crate) mod open;
pub(crate) mod operation;
