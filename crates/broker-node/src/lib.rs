//! The core, the journal, and the queue of effects that wait until the journal is durable, as one state machine.
//!
//! Invariant: no effect leaves before every awaited record that was appended before it is durable (decision 27).
//!
//! The caller owns the clock and the disk thread: it hands in batches of commands, performs the disk work that
//! [`Node::poll_io`] asks for, reports it with [`Node::handle_io`], and passes on what [`Node::poll_effects`] releases.

mod agreement;
mod core_output;
mod durability_queue;
mod limits;
mod namespace;
mod node;
mod outbox;
mod recovery;

pub use agreement::{Agreement, Alone};
pub use limits::NodeLimits;
pub use namespace::change::{NamespaceCommand, NamespaceRequest};
pub use namespace::deferred_batches::CommandWait;
pub use namespace::{NamespaceId, NamespaceView};
pub use node::{Node, NodeFault};
pub use outbox::Released;
pub use recovery::{RecoveryError, in_memory, recover};
