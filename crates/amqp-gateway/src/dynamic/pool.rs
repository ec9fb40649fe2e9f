//! The dynamic nodes of all connections: how many there are, how many there may be, and the secret from which their names follow.
//!
//! Invariant: the count is the number of permits; it never exceeds the limit.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use broker_core::ClientId;
use sha2::{Digest as _, Sha256};

/// Dynamic nodes of one connection, by default.
pub const CONNECTION_DYNAMIC_NODES: usize = 1_000;
/// Dynamic nodes of all connections, by default: half of the entities that a namespace may have.
pub const ALL_DYNAMIC_NODES: usize = 5_000;

/// The dynamic nodes of all connections of a server.
pub struct DynamicNodePool {
    key: [u8; 16],
    limit: usize,
    connection_limit: usize,
    count: AtomicUsize,
}

impl DynamicNodePool {
    /// For at most `limit` nodes, of which a connection may have `connection_limit`. `key` must be random and new for
    /// each start: who knows it can guess the addresses of the nodes.
    pub fn new(key: [u8; 16], limit: usize, connection_limit: usize) -> Self {
        Self { key, limit, connection_limit, count: AtomicUsize::new(0) }
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Most nodes of all connections.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Most nodes of one connection.
    pub(crate) const fn connection_limit(&self) -> usize {
        self.connection_limit
    }

    /// A permit for one node more; `None`: there are as many as there may be.
    pub(crate) fn take(self: &Arc<Self>) -> Option<DynamicNodePermit> {
        let more = |count: usize| (count < self.limit).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(DynamicNodePermit(Arc::clone(self)))
    }

    /// 128 bits for the name of a client's node of this number, which nobody can tell without the key.
    pub(crate) fn chance(&self, client: ClientId, number: u64) -> u128 {
        let digest = Sha256::new()
            .chain_update(self.key)
            .chain_update(client.0.to_be_bytes())
            .chain_update(number.to_be_bytes())
            .finalize();
        let (half, _) = digest.split_first_chunk::<16>().expect("the digest has 32 bytes");
        u128::from_be_bytes(*half)
    }
}

impl Default for DynamicNodePool {
    /// With a key that everybody knows.
    fn default() -> Self {
        Self::new([0; 16], ALL_DYNAMIC_NODES, CONNECTION_DYNAMIC_NODES)
    }
}

/// Without the key.
impl fmt::Debug for DynamicNodePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key: _, limit, connection_limit, count } = self;
        f.debug_struct("DynamicNodePool")
            .field("limit", limit)
            .field("connection_limit", connection_limit)
            .field("count", count)
            .finish_non_exhaustive()
    }
}

/// One of the nodes that there may be, for as long as it is held.
#[derive(Debug)]
pub(crate) struct DynamicNodePermit(Arc<DynamicNodePool>);

impl Drop for DynamicNodePermit {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
