//! The head that all records share: version, kind, namespace and store.
//!
//! Invariant: a record says whose it is in its first eight bytes, whatever its kind, so that it can be brought to its owner
//! without being understood.

use super::{VERSION, kind, reader::Reader};
use crate::{NamespaceSlot, QueueId, RecordError};

/// Bytes of a head.
pub(super) const HEAD: usize = 8;

/// The first bytes of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Head {
    pub(super) kind: u8,
    /// The store that the record is about; of an entity, that of its messages.
    pub(super) queue: QueueId,
}

impl Head {
    /// A core writes 0 for the slot: its node writes the namespace's own over it.
    #[inline]
    pub(super) fn encode(kind: u8, queue: QueueId) -> [u8; HEAD] {
        let [q0, q1, q2, q3] = queue.0.to_le_bytes();
        [VERSION, kind, 0, 0, q0, q1, q2, q3]
    }

    /// A core is brought the records of its own namespace alone, so it does not look at the slot.
    #[inline]
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        let kind = reader.u8("kind")?;
        reader.u16("namespace")?;
        Ok(Self { kind, queue: QueueId(reader.u32("store")?) })
    }
}

/// The owner of a record: whose state it changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecordOwner {
    /// The core of the namespace in this slot.
    Core(NamespaceSlot),
    /// The shard's list of namespaces.
    Namespaces(NamespaceSlot),
}

impl RecordOwner {
    /// Reads the head of a record.
    #[inline]
    pub fn of(record: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(record);
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        let kind = reader.u8("kind")?;
        let slot = NamespaceSlot(reader.u16("namespace")?);
        match kind {
            kind::NAMESPACE => Ok(Self::Namespaces(slot)),
            1..=kind::LAST => Ok(Self::Core(slot)),
            kind => Err(RecordError::Kind { kind }),
        }
    }
}

impl NamespaceSlot {
    /// Writes the slot into the head of a record. Bytes that are too short for a head stay as they are.
    #[inline]
    pub fn write_into(self, record: &mut [u8]) {
        super::put(record, 2, &self.0.to_le_bytes());
    }
}
