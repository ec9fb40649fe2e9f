//! Observer of the namespaces of a shard, and of the keys of their entities.
//!
//! Invariant: it is told of what is durable, before anybody is answered for it.

use std::fmt::Debug;

use broker_core::{AuthorizationRule, Effect, NamespaceDefinition};
use broker_node::NamespaceId;

/// Follows the namespaces of a shard.
pub(crate) trait NamespaceObserver: Debug + Send + Sync {
    /// A definition is durable. The id of a namespace that is new to the observer.
    fn apply(&self, definition: NamespaceDefinition) -> Option<NamespaceId>;

    /// The shard has been recovered with these namespaces, and has no other.
    fn forget_others(&self, there: &[NamespaceId]);

    /// An entity has these keys.
    fn set_entity_keys(&self, id: NamespaceId, entity: &str, rules: &[AuthorizationRule]);

    /// Takes the effects that tell of keys.
    fn take_entity_keys(&self, id: NamespaceId, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::KeysChanged { entity, rules } = effect {
                self.set_entity_keys(id, &entity, &rules);
            }
        }
    }
}
