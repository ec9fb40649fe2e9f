//! The way from a shard to the directory, for namespaces that change and for the keys of their entities.
//!
//! Invariant: the directory has a change before anybody is answered that it was made.

use std::sync::{Arc, Weak};

use broker_core::{AuthorizationRule, NamespaceDefinition, NamespaceSlot};
use broker_node::NamespaceId;
use tokio::sync::watch;

use super::{NamespaceDirectory, directory::reason_to_leave};
use crate::{
    connections::Connections, effect_queue::ControlMessage, executor::Executor,
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

    fn set_entity_keys(&self, id: NamespaceId, entity: &str, rules: &[AuthorizationRule]) {
        if let Some(executor) = self.executor.upgrade() {
            self.directory.set_entity_keys((executor.shard(), id), entity, rules);
        }
    }
}

/// Has every connection look at its links whenever a key was taken back, until the broker is gone.
pub(crate) async fn tell_of_lost_keys(mut lost: watch::Receiver<()>, connections: Arc<Connections>) {
    while lost.changed().await.is_ok() {
        for (number, (_, entry)) in connections.all().into_iter().enumerate() {
            entry.effect_queue.ask(ControlMessage::LookAtKeys);
            if number % TOLD_AT_ONCE == TOLD_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Has connections leave namespaces that take none any more, until the broker is gone.
pub(crate) async fn tell_to_leave(mut left: watch::Receiver<()>, connections: Arc<Connections>) {
    while left.changed().await.is_ok() {
        for (number, (_, entry)) in connections.all().into_iter().enumerate() {
            if let Some(reason) = entry.namespace().and_then(|namespace| reason_to_leave(namespace)) {
                entry.effect_queue.ask(ControlMessage::LeaveNamespace(reason));
            }
            if number % TOLD_AT_ONCE == TOLD_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Connections that are told in one go: others of the thread have their turn in between.
const TOLD_AT_ONCE: usize = 256;

impl std::fmt::Debug for ShardNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShardNamespaces")
    }
}
