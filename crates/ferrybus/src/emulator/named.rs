//! Properties that the emulator's `Config.json` can set.
//!
//! Invariant: one that it leaves out has the emulator's default, and one that its schema does not have is left alone.

use broker_core::EntityKind;

use super::schema;
use crate::difference::Named;

/// The properties that the schema gives such an entity.
pub(crate) fn named(kind: EntityKind) -> Named {
    Named::Only(schema(kind).map(|row| row.key).collect())
}

#[cfg(test)]
mod tests;
