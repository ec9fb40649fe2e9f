//! Cache of entity keys: from the node to the authority that verifies tokens, and to the links that they admitted.
//!
//! Invariant: what an administrator is told of a change comes after the change counts; what is not durable opens nothing.

use std::sync::Arc;

use broker_auth::Authority;
use broker_core::{AuthorizationRule, Batch, ClientId, Command, Effect};
use tokio::sync::watch;

use crate::{connections::Connections, effect_queue::ControlMessage};

/// The client that is told of keys. Connections count upwards, and do not get there.
pub(crate) const CLIENT: ClientId = ClientId(u64::MAX);

/// Connections that are told in one go: others of the thread have their turn in between.
const TOLD_AT_ONCE: usize = 256;

/// Brings the keys to the authority.
#[derive(Debug)]
pub(crate) struct EntityKeyCache {
    authority: Arc<Authority>,
    /// Sent when a key was taken back, or permits less.
    lost: watch::Sender<()>,
}

impl EntityKeyCache {
    /// Tells `lost` when links have to be looked at.
    pub(crate) const fn new(authority: Arc<Authority>, lost: watch::Sender<()>) -> Self {
        Self { authority, lost }
    }

    /// Request to the node whose effects go to [`EntityKeyCache::take`].
    pub(crate) fn request() -> Batch {
        Batch { client: CLIENT, commands: vec![Command::WatchKeys] }
    }

    /// The entity has these keys.
    pub(crate) fn set(&self, entity: &str, rules: &[AuthorizationRule]) {
        if self.authority.set_entity_rules(entity, amqp_gateway::entity_rules(rules)) {
            self.lost.send_replace(());
        }
    }

    /// Takes what the node has said to [`CLIENT`].
    pub(crate) fn take(&self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::KeysChanged { entity, rules } = effect {
                self.set(&entity, &rules);
            }
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
