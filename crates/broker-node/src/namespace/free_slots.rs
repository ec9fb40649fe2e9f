//! Slots of a shard that no namespace has.
//!
//! Invariant: a slot is free from the start, or from its release on, until it is taken. Taking the lowest one looks at no
//! namespace.

use std::collections::BTreeSet;

use broker_core::NamespaceSlot;

/// The free slots.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    /// Free ones below `unused`.
    released: BTreeSet<NamespaceSlot>,
    /// From this one on all are free.
    unused: u32,
}

impl FreeSlots {
    /// The lowest one, if there is any.
    pub(crate) fn lowest(&self) -> Option<NamespaceSlot> {
        let unused = || u16::try_from(self.unused).ok().map(NamespaceSlot);
        self.released.first().copied().or_else(unused)
    }

    /// A namespace has it now. One that is taken may be taken again.
    pub(crate) fn take(&mut self, slot: NamespaceSlot) {
        let number = u32::from(slot.0);
        if number < self.unused {
            self.released.remove(&slot);
            return;
        }
        let first = u16::try_from(self.unused).unwrap_or(u16::MAX);
        self.released.extend((first..slot.0).map(NamespaceSlot));
        self.unused = number + 1;
    }

    /// Its namespace is gone.
    pub(crate) fn release(&mut self, slot: NamespaceSlot) {
        if u32::from(slot.0) < self.unused {
            self.released.insert(slot);
        }
    }
}

#[cfg(test)]
mod tests;
