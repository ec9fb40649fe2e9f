//! The dynamic nodes of all connections: how many there are, how many there may be, and the secret from which their names follow.
//!
//! Invariant: a count is the number of permits, of a namespace or of all of them; that of all never exceeds the limit.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use broker_core::ClientId;
use sha2::{Digest as _, Sha256};

/// Dynamic nodes of one connection, by default.
pub const CONNECTION_DYNAMIC_NODES: usize = 1_000;
/// Dynamic nodes of all connections, by default: half of the entities that a namespace may have.
pub const ALL_DYNAMIC_NODES: usize = 5_000;

/// The dynamic nodes of a namespace. All namespaces of a server share its limit.
pub struct DynamicNodePool {
    server: Arc<ServerNodes>,
    count: AtomicUsize,
    created: AtomicU64,
    refused: AtomicU64,
}

/// The dynamic nodes of all connections of a server.
struct ServerNodes {
    key: [u8; 16],
    limit: usize,
    connection_limit: usize,
    count: AtomicUsize,
}

impl DynamicNodePool {
    /// For at most `limit` nodes, of which a connection may have `connection_limit`. `key` must be random and new for
    /// each start: who knows it can guess the addresses of the nodes.
    pub fn new(key: [u8; 16], limit: usize, connection_limit: usize) -> Self {
        Self::of_server(Arc::new(ServerNodes { key, limit, connection_limit, count: AtomicUsize::new(0) }))
    }

    /// The nodes of another namespace of the same server.
    #[must_use]
    pub fn of_another_namespace(&self) -> Self {
        Self::of_server(Arc::clone(&self.server))
    }

    const fn of_server(server: Arc<ServerNodes>) -> Self {
        Self { server, count: AtomicUsize::new(0), created: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Nodes that were created since the start.
    pub fn created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// Nodes that were not created since the start, because their connection or the broker had as many as it may.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A node is not created because of a limit.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Most nodes of all connections.
    pub(crate) fn limit(&self) -> usize {
        self.server.limit
    }

    /// Most nodes of one connection.
    pub(crate) fn connection_limit(&self) -> usize {
        self.server.connection_limit
    }

    /// A permit for one node more; `None`: there are as many as there may be.
    pub(crate) fn take(self: &Arc<Self>) -> Option<DynamicNodePermit> {
        let more = |count: usize| (count < self.server.limit).then_some(count + 1);
        self.server.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(DynamicNodePermit(Arc::clone(self)))
    }

    /// 128 bits for the name of a client's node of this number, which nobody can tell without the key.
    pub(crate) fn chance(&self, client: ClientId, number: u64) -> u128 {
        let digest = Sha256::new()
            .chain_update(self.server.key)
            .chain_update(client.0.to_be_bytes())
            .chain_update(number.to_be_bytes())
            .finalize();
        let (half, _) = digest.split_first_chunk::<16>().expect("the digest has 32 bytes");
        u128::from_be_bytes(*half)
    }

    /// Seed of the hashes of what peers name, which nobody can tell without the key.
    pub(crate) fn hash_seed(&self) -> u64 {
        let digest = Sha256::new().chain_update(self.server.key).chain_update(b"names").finalize();
        let (front, _) = digest.split_first_chunk::<8>().expect("the digest has 32 bytes");
        u64::from_be_bytes(*front)
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
        let ServerNodes { key: _, limit, connection_limit, count: _ } = &*self.server;
        f.debug_struct("DynamicNodePool")
            .field("limit", limit)
            .field("connection_limit", connection_limit)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

/// One of the nodes that there may be, for as long as it is held.
#[derive(Debug)]
pub(crate) struct DynamicNodePermit(Arc<DynamicNodePool>);

impl DynamicNodePermit {
    /// The node is there.
    pub(super) fn note_created(&self) {
        self.0.created.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for DynamicNodePermit {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.server.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
