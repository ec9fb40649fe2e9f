//! Settlement: outcomes, locks that are renewed or released, and dead-lettering (`docs/features/settlement.md`).
//!
//! Invariant: a refused settlement changes nothing.

pub(crate) mod dead_letter;
pub(crate) mod disposer;
pub(crate) mod lock_release;
pub(crate) mod lock_release_queue;
pub(crate) mod outcome;
pub(crate) mod outcome_size;
pub(crate) mod property_patch;
pub(crate) mod settlements;
pub(crate) mod token;
