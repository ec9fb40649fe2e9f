//! Keys by the values of the same few properties.
//!
//! Conditions over the same properties have one shape, and a shape finds its keys by one hash over all
//! values. A message is only compared with shapes of which it has one property, the anchor: the one that
//! anchored the fewest shapes when the shape was new.
//!
//! Invariant: finds each key whose conditions all hold, and seldom another.

use std::collections::{BTreeMap, BTreeSet};

use crate::fold::Hash;
use crate::properties::{Property, PropertySet};
use crate::value::Value;

#[derive(Debug, Clone)]
pub(super) struct Shapes<K> {
    shapes: BTreeMap<Box<[Property]>, Shape<K>>,
    /// The properties of shapes, by the hash of their anchor.
    anchored: BTreeMap<u64, BTreeSet<Box<[Property]>>>,
}

#[derive(Debug, Clone)]
struct Shape<K> {
    anchor: u64,
    /// By the hash of all values.
    keys: BTreeMap<u64, BTreeSet<K>>,
}

impl<K> Default for Shapes<K> {
    fn default() -> Self {
        Self { shapes: BTreeMap::new(), anchored: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Shapes<K> {
    /// There is at least one condition; each property is there once, in a fixed order.
    pub(super) fn insert(&mut self, conditions: &[(&Property, &Value)], key: &K) {
        let properties = properties(conditions);
        let anchored = &mut self.anchored;
        let shape = self.shapes.entry(properties).or_insert_with_key(|properties| {
            let shapes = |hash: &u64| anchored.get(hash).map_or(0, BTreeSet::len);
            let anchor = properties.iter().map(Property::hash).min_by_key(shapes).unwrap_or_default();
            anchored.entry(anchor).or_default().insert(properties.clone());
            Shape { anchor, keys: BTreeMap::new() }
        });
        shape.keys.entry(hash(conditions)).or_default().insert(key.clone());
    }

    pub(super) fn remove(&mut self, conditions: &[(&Property, &Value)], key: &K) {
        let properties = properties(conditions);
        let Some(shape) = self.shapes.get_mut(&properties) else { return };
        let hash = hash(conditions);
        if let Some(keys) = shape.keys.get_mut(&hash) {
            keys.remove(key);
            if keys.is_empty() {
                shape.keys.remove(&hash);
            }
        }
        if shape.keys.is_empty() {
            let anchor = shape.anchor;
            self.shapes.remove(&properties);
            if let Some(others) = self.anchored.get_mut(&anchor) {
                others.remove(&properties);
                if others.is_empty() {
                    self.anchored.remove(&anchor);
                }
            }
        }
    }

    /// Adds the keys whose conditions may hold.
    pub(super) fn find<'a>(&'a self, set: &PropertySet, found: &mut BTreeSet<&'a K>) {
        if self.shapes.is_empty() {
            return;
        }
        for (anchor, _) in set.hashes() {
            for properties in self.anchored.get(&anchor).into_iter().flatten() {
                let keys = || self.shapes.get(properties)?.keys.get(&hash_of(properties, set)?);
                found.extend(keys().into_iter().flatten());
            }
        }
    }
}

fn properties(conditions: &[(&Property, &Value)]) -> Box<[Property]> {
    conditions.iter().map(|(property, _)| (*property).clone()).collect()
}

fn hash(conditions: &[(&Property, &Value)]) -> u64 {
    conditions.iter().fold(Hash::new(), |hash, (_, value)| value.hash(hash)).get()
}

/// `None` when the message lacks one of the properties.
fn hash_of(properties: &[Property], set: &PropertySet) -> Option<u64> {
    let mut hash = Hash::new();
    for property in properties {
        hash = set.get(property)?.hash(hash);
    }
    Some(hash.get())
}
