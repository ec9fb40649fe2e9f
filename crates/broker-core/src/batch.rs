//! The commands of one client that are handled together.
//!
//! Invariant: the commands of a batch are handled in order, with none of another client in between.

use crate::{ClientId, Command};

/// All that one connection asked in one go, in order.
#[derive(Clone, Debug)]
pub struct Batch {
    pub client: ClientId,
    pub commands: Vec<Command>,
}
