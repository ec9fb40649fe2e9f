//! One connection: its client, its open, the bytes that may be on their way to it, and facts for the log.
//!
//! Invariant: nothing here knows a link.

mod client;
mod client_library;
mod delivery_window;
pub(crate) mod handshake;
mod key_wait;
pub(crate) mod opening;
pub(crate) mod placement;
pub(crate) mod record;
mod registration;
mod sasl_exchange;

pub(crate) use client::Client;
pub(crate) use key_wait::KeyWait;
pub(crate) use registration::{CoreRegistration, DELIVERY_BYTES};
