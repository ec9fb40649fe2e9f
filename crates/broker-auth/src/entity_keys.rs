//! Keys of single entities and of the whole namespace, which come and go while the broker runs.
//!
//! A connection that such a key admitted holds the key itself: its rights are looked up there each time, so that
//! revoking or restricting a key takes effect on all connections at once.
//!
//! Invariant: a key permits nothing beyond its entity and what belongs to it, and nothing once it is taken back.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::{Right, Rights, Scope, Secret, sas::SasToken, secret::Seal};

/// A shared access rule of one entity.
#[derive(Clone, Debug)]
pub struct EntityRule {
    /// The name that tokens carry as `skn`, compared exactly.
    pub name: Box<str>,
    pub primary: Secret,
    /// The other key, just as good.
    pub secondary: Option<Secret>,
    /// Rights of either key at the entity.
    pub rights: Rights,
}

/// One key of one entity.
struct EntityKey {
    entity: Scope,
    name: Box<str>,
    secret: Secret,
    seal: Seal,
    /// The bits of its rights now; none once it is taken back.
    rights: AtomicU8,
}

/// A key with which a client has logged in.
#[derive(Clone)]
pub(crate) struct KeyHandle(Arc<EntityKey>);

impl KeyHandle {
    /// Whether the key permits `right` at `scope` now.
    pub(crate) fn permits(&self, scope: &Scope, right: Right) -> bool {
        self.0.rights().contains(right) && self.0.entity.holds(scope)
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn rights(&self) -> Rights {
        self.0.rights()
    }

    pub(crate) fn signed(&self, token: &SasToken<'_>) -> bool {
        token.is_signed_with(&self.0.secret)
    }
}

impl PartialEq for KeyHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for KeyHandle {}

impl fmt::Debug for KeyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held({} of {}, {:?})", self.0.name, self.0.entity, self.0.rights())
    }
}

impl EntityKey {
    fn rights(&self) -> Rights {
        // Nothing else is read because of what is found here.
        Rights::from_bits(self.rights.load(Ordering::Relaxed))
    }

    fn permit(&self, rights: Rights) {
        self.rights.store(rights.to_bits(), Ordering::Relaxed);
    }
}

/// The keys of all entities.
#[derive(Default)]
pub(crate) struct EntityKeys {
    by_entity: RwLock<BTreeMap<Scope, Vec<KeyHandle>>>,
}

impl fmt::Debug for EntityKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntityKeys")
    }
}

impl EntityKeys {
    pub(crate) const fn new() -> Self {
        Self { by_entity: RwLock::new(BTreeMap::new()) }
    }

    /// From now on the entity has these keys and no others. True if one permits less than before, or is gone.
    pub(crate) fn replace(&self, entity: &Scope, rules: Vec<EntityRule>) -> bool {
        // Each step leaves something that can be used, so a panic in between cannot have done harm.
        let mut by_entity = self.by_entity.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = by_entity.remove(entity).unwrap_or_default();
        let mut lost = false;
        let mut new = Vec::new();
        for EntityRule { name, primary, secondary, rights } in rules {
            for secret in std::iter::once(primary).chain(secondary).filter(|secret| !secret.is_empty()) {
                let seal = secret.seal();
                let is_same = |held: &KeyHandle| held.0.name == name && held.0.seal == seal;
                if let Some(at) = old.iter().position(is_same) {
                    let held = old.swap_remove(at);
                    lost |= !rights.covers(held.rights());
                    held.0.permit(rights);
                    new.push(held);
                } else {
                    let rights = AtomicU8::new(rights.to_bits());
                    let (entity, name) = (entity.clone(), name.clone());
                    new.push(KeyHandle(Arc::new(EntityKey { entity, name, secret, seal, rights })));
                }
            }
        }
        lost |= !old.is_empty();
        for held in &old {
            held.0.permit(Rights::NONE);
        }
        if !new.is_empty() {
            by_entity.insert(entity.clone(), new);
        }
        lost
    }

    /// The keys of the entity that `place` is, or belongs to, which have the name that the token says.
    pub(crate) fn named(&self, token: &SasToken<'_>, place: &Scope) -> Vec<KeyHandle> {
        let by_entity = self.by_entity.read().unwrap_or_else(PoisonError::into_inner);
        if by_entity.is_empty() {
            return Vec::new();
        }
        let above = place.ancestry().map(Scope::of_name).filter(|entity| entity.holds(place));
        let keys = above.filter_map(|entity| by_entity.get(&entity)).flatten();
        keys.filter(|held| token.is_by(held.name())).cloned().collect()
    }

    /// Whether there is a key of this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let by_entity = self.by_entity.read().unwrap_or_else(PoisonError::into_inner);
        by_entity.values().flatten().any(|held| held.name() == name)
    }

    /// All keys of this name and text.
    pub(crate) fn proved(&self, name: &str, text: &[u8]) -> Vec<KeyHandle> {
        let by_entity = self.by_entity.read().unwrap_or_else(PoisonError::into_inner);
        if by_entity.is_empty() {
            return Vec::new();
        }
        // One digest for all: there may be a key of that name at each of many entities.
        let presented = Seal::of(text);
        let keys = by_entity.values().flatten();
        keys.filter(|held| held.name() == name && held.0.seal == presented).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
