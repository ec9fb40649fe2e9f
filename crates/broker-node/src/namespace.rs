//! The namespaces of a node: each has a core of its own over the one journal.
//!
//! Invariant: nothing that one namespace is asked changes or shows another.

pub(crate) mod busy_turns;
pub(crate) mod change;
pub(crate) mod core;
pub(crate) mod deferred_batches;
pub(crate) mod deletion;
pub(crate) mod free_slots;
pub(crate) mod recent;
pub(crate) mod registry;
pub(crate) mod round_bounds;
pub(crate) mod schedule;
pub(crate) mod units;
pub(crate) mod unwritten;
pub(crate) mod usage;

use broker_core::{Core, NamespaceDefinition, NamespaceSlot, Work};

/// A namespace of a node, as those name it who were told of it once. A slot is used again, and then it has another id: who
/// still has the earlier one reaches nothing.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NamespaceId {
    pub slot: NamespaceSlot,
    /// Low half of its random id.
    pub uid: u64,
}

impl NamespaceId {
    /// The default namespace.
    pub const DEFAULT: Self = Self { slot: NamespaceSlot::DEFAULT, uid: 0 };

    /// The id of a definition.
    #[expect(clippy::cast_possible_truncation, reason = "half of the random id is enough")]
    pub const fn of(definition: &NamespaceDefinition) -> Self {
        Self { slot: definition.slot, uid: definition.uid as u64 }
    }
}

/// A namespace of a node, to look at.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceView<'a> {
    pub id: NamespaceId,
    pub definition: &'a NamespaceDefinition,
    pub core: &'a Core,
    /// Bytes of its records that are alive.
    pub live_bytes: u64,
    /// Bytes of records that it has appended since the start.
    pub appended_bytes: u64,
    /// Bytes of its records that the disk had not confirmed when it last had work; 0 in a node with one namespace.
    pub unwritten_bytes: u64,
    /// Work that was done for it since the start.
    pub work: Work,
    /// Part of that which no client asked for: work that was due, and records that the journal moved.
    pub background_work: Work,
    /// Bytes of memory for its records in the journal's write cache.
    pub cached_bytes: u64,
    /// Records that were read for it and not found there since the start.
    pub disk_reads: u64,
}
