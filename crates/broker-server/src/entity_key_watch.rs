//! Client of the node that is told of the keys of entities, in each namespace.
//!
//! Invariant: no connection has its number.

use broker_core::{Batch, ClientId, Command};

/// The client. Connections count upwards, and do not get there.
pub(crate) const CLIENT: ClientId = ClientId(u64::MAX);

/// Request to the node whose effects tell of keys.
pub(crate) fn request() -> Batch {
    Batch { client: CLIENT, commands: vec![Command::WatchKeys] }
}
