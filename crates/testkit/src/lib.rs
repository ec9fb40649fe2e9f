//! A scripted AMQP 1.0 client for tests: it sends exactly the frames it is told to, right or wrong, and shows exactly
//! the frames that come back. [`Script`] does no I/O, for the simulator; [`Wire`] is a script on a socket.
//!
//! Invariant: nothing is sent that the test did not ask for, and nothing received is hidden from it.

pub mod corpus;
mod encode;
pub mod replay;
mod script;
mod wire;

pub use encode::{application_properties, data, message, properties, value};
pub use script::{Incoming, Received, Script};
pub use wire::{Wire, WireError};
