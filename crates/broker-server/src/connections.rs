//! Table of connections, for operators.
//!
//! A connection is added when it begins and removed when it ends. Its open links are counted only on request.
//!
//! Invariant: the list holds every connection that speaks AMQP, and none that has ended.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use broker_core::{ClientId, Timestamp};

use crate::{effect_queue::EffectQueue, metrics::Transport, namespaces::ServedNamespace};

/// All connections, by their clients' numbers.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    all: Mutex<BTreeMap<u64, Arc<Entry>>>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) address: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) since: Timestamp,
    /// Queue for control messages.
    pub(crate) effect_queue: Arc<EffectQueue>,
    /// The namespace, once it is known.
    namespace: OnceLock<Arc<ServedNamespace>>,
}

impl Entry {
    pub(crate) const fn new(
        address: SocketAddr,
        transport: Transport,
        since: Timestamp,
        effect_queue: Arc<EffectQueue>,
    ) -> Self {
        Self { address, transport, since, effect_queue, namespace: OnceLock::new() }
    }

    /// The namespace of the connection, once it is known.
    pub(crate) fn namespace(&self) -> Option<&Arc<ServedNamespace>> {
        self.namespace.get()
    }
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a connection, for as long as what is returned lives.
    pub(crate) fn enter(self: &Arc<Self>, client: ClientId, entry: Entry) -> ConnectionListing {
        self.lock().insert(client.0, Arc::new(entry));
        ConnectionListing { connections: Arc::clone(self), client }
    }

    /// All there are, in the order in which they began.
    pub(crate) fn all(&self) -> Vec<(u64, Arc<Entry>)> {
        self.lock().iter().map(|(id, entry)| (*id, Arc::clone(entry))).collect()
    }

    /// One of them.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Entry>> {
        self.lock().get(&id).map(Arc::clone)
    }
}

/// A line in the list; struck out when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionListing {
    connections: Arc<Connections>,
    client: ClientId,
}

impl ConnectionListing {
    /// The connection was placed in a namespace.
    pub(crate) fn enter_namespace(&self, namespace: &Arc<ServedNamespace>) {
        if let Some(entry) = self.connections.get(self.client.0) {
            entry.namespace.set(Arc::clone(namespace)).ok();
        }
    }
}

impl Drop for ConnectionListing {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.client.0);
    }
}

#[cfg(test)]
mod tests;
