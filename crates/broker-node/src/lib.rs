//! In which order, and is it durable yet? The core, the journal and the effects that wait for it, as one machine.
//!
//! Invariant: no effect leaves before every record appended before it is durable.
//!
//! The caller owns the clock and the disk thread: it hands in batches of commands, performs the disk work that
//! [`Node::poll_io`] asks for, reports it with [`Node::handle_io`], and passes on what [`Node::poll_effects`] releases.

mod core_output;
mod deferred_batches;
mod durability_queue;
mod node;
mod outbox;
mod recovery;

pub use node::{Node, NodeFault, NodeLimits};
pub use outbox::Released;
pub use recovery::{RecoveryError, in_memory, recover};
