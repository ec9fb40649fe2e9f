//! Telling which keys open which entities: the core keeps them and judges nobody.
//!
//! Invariant: whoever watches is told of every change, behind the record of it and before its answer.

use super::Core;
use crate::{AuthorizationRule, Effect, EntityView, Output, QueueId};

impl Core {
    /// The keys of an entity are others than before.
    pub(super) fn tell_keys(&mut self, queue: QueueId, out: &mut impl Output) {
        let Some(definition) = self.main_of(queue).map(|entity| &entity.definition) else { return };
        let (entity, rules) = (definition.name.clone(), definition.settings.authorization.clone());
        self.tell(entity, rules, out);
    }

    /// An entity that had keys is gone.
    pub(super) fn tell_keys_gone(&mut self, entity: Box<str>, out: &mut impl Output) {
        self.tell(entity, Vec::new(), out);
    }

    fn tell(&mut self, entity: Box<str>, rules: Vec<AuthorizationRule>, out: &mut impl Output) {
        if let Some(client) = self.keys_watcher {
            self.merge.effect(client, Effect::KeysChanged { entity, rules }, out);
        }
    }

    /// The entities that have keys, and the keys: for whoever begins to watch.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &[AuthorizationRule])> {
        let all = self.entities().map(|EntityView { name, settings, .. }| (name, &*settings.authorization));
        all.filter(|(_, rules)| !rules.is_empty())
    }
}
