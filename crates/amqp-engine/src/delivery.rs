//! Deliveries: those being received, those not yet settled, those waiting to be sent.
//!
//! Invariant: nothing is kept of a delivery that both sides have settled.

mod compaction;
mod delayed;
mod outgoing;
mod partial;
mod partial_bytes;
mod payload;
mod tags;
mod unsettled;

pub(crate) use compaction::Compaction;
pub(crate) use delayed::{DelayedOutcome, DelayedOutcomes};
pub use outgoing::OutgoingDelivery;
pub(crate) use outgoing::Queued;
pub(crate) use partial::{Mismatch, Partial};
pub(crate) use partial_bytes::PartialBytes;
pub(crate) use payload::Payload;
pub(crate) use unsettled::{Unsettled, UnsettledError};
