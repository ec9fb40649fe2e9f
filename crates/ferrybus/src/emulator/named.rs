//! Properties that the emulator's `Config.json` can set.
//!
//! Invariant: one that it leaves out has the emulator's default, and one that its schema does not have is left alone.

use broker_core::EntityKind;

use super::{PROPERTIES, topics};
use crate::{difference::Named, property};

/// The properties that the schema gives such an entity. Its names are those of the administration API.
pub(crate) fn named(kind: EntityKind) -> Named {
    let elements: &[&str] = match kind {
        EntityKind::Queue => &PROPERTIES,
        EntityKind::Topic => &topics::TOPIC,
        EntityKind::Subscription => &topics::SUBSCRIPTION,
    };
    let keys = property::of(kind).filter(|property| elements.contains(&property.element));
    Named::Only(keys.map(|property| property.key).collect())
}

#[cfg(test)]
mod tests;
