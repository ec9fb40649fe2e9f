//! The way from a shard to the directory, for namespaces that change and for the keys of their entities.
//!
//! Invariant: the directory has a change before anybody is answered that it was made.

use std::sync::{Arc, Weak};

use broker_core::{AuthorizationRule, NamespaceDefinition, NamespaceSlot, NamespaceState};
use broker_node::NamespaceId;
use tokio::sync::watch;

use super::{NamespaceDirectory, directory::reason_to_leave};
use crate::{
    connections::Connections, effect_queue::ControlMessage, executor::Executor, io_threads::Spawner,
    namespace_observer::NamespaceObserver,
};

/// The directory, as one shard tells it of its namespaces.
pub(crate) struct ShardNamespaces {
    directory: Arc<NamespaceDirectory>,
    /// The shard that tells. It owns this.
    executor: Weak<Executor>,
}

impl ShardNamespaces {
    pub(crate) fn new(directory: Arc<NamespaceDirectory>, executor: &Arc<Executor>) -> Self {
        Self { directory, executor: Arc::downgrade(executor) }
    }
}

impl NamespaceObserver for ShardNamespaces {
    fn apply(&self, definition: NamespaceDefinition) -> Option<NamespaceId> {
        let executor = self.executor.upgrade()?;
        // The default namespace is that of the first shard. In the others nobody reaches it.
        if executor.shard() > 0 && definition.slot == NamespaceSlot::DEFAULT {
            return None;
        }
        self.directory.apply(definition, &executor).map(|served| served.id)
    }

    fn forget_others(&self, there: &[NamespaceId]) {
        let Some(executor) = self.executor.upgrade() else { return };
        for served in self.directory.all() {
            if served.executor.shard() == executor.shard() && !there.contains(&served.id) {
                // It was deleted, and nobody was told.
                let definition = NamespaceDefinition::clone(&served.definition());
                let gone = NamespaceDefinition { state: NamespaceState::Deleted, ..definition };
                self.directory.apply(gone, &executor);
            }
        }
    }

    fn set_entity_keys(&self, id: NamespaceId, entity: &str, rules: &[AuthorizationRule]) {
        if let Some(executor) = self.executor.upgrade() {
            self.directory.set_entity_keys((executor.shard(), id), entity, rules);
        }
    }
}

/// Has every connection look at its links whenever a key was taken back, until the broker is gone.
pub(crate) async fn tell_of_lost_keys(
    mut lost: watch::Receiver<()>,
    connections: Arc<Connections>,
    threads: Spawner,
) {
    while lost.changed().await.is_ok() {
        let mut told = Told::new(&threads);
        for (_, entry) in connections.all() {
            entry.effect_queue.ask(ControlMessage::LookAtKeys);
            told.one_more().await;
        }
    }
}

/// Has connections leave namespaces that take none any more, until the broker is gone.
pub(crate) async fn tell_to_leave(
    mut left: watch::Receiver<()>,
    connections: Arc<Connections>,
    threads: Spawner,
) {
    while left.changed().await.is_ok() {
        let mut told = Told::new(&threads);
        for (_, entry) in connections.all() {
            if let Some(reason) = entry.namespace().and_then(|namespace| reason_to_leave(namespace)) {
                entry.effect_queue.ask(ControlMessage::LeaveNamespace(reason));
                told.one_more().await;
            }
        }
    }
}

/// Connections that are told before the next ones wait until these have had a turn. Those of other namespaces on their threads
/// wait for so many at most.
const TOLD_AT_ONCE: usize = 32;

/// Number of connections that are told something, a few at a time.
struct Told<'a> {
    threads: &'a Spawner,
    number: usize,
}

impl<'a> Told<'a> {
    const fn new(threads: &'a Spawner) -> Self {
        Self { threads, number: 0 }
    }

    /// One was told. Waits where enough were.
    async fn one_more(&mut self) {
        self.number += 1;
        if self.number == TOLD_AT_ONCE {
            self.number = 0;
            self.threads.pass().await;
        }
    }
}

impl std::fmt::Debug for ShardNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShardNamespaces")
    }
}
