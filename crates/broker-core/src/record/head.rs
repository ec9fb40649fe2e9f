//! The head that all records share: version, kind, namespace and store.
//!
//! Invariant: a record says whose it is in its first eight bytes, whatever its kind, so that it can be brought to its owner
//! without being understood.

use super::{VERSION, reader::Reader};
use crate::{QueueId, RecordError};

/// Bytes of a head.
pub(super) const HEAD: usize = 8;

/// The namespace of a record: the number of its slot in the shard. The default namespace has slot 0.
pub(super) const DEFAULT_NAMESPACE: u16 = 0;

/// The first bytes of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Head {
    pub(super) kind: u8,
    /// The store that the record is about; of an entity, that of its messages.
    pub(super) queue: QueueId,
}

impl Head {
    #[inline]
    pub(super) fn encode(kind: u8, queue: QueueId) -> [u8; HEAD] {
        let [n0, n1] = DEFAULT_NAMESPACE.to_le_bytes();
        let [q0, q1, q2, q3] = queue.0.to_le_bytes();
        [VERSION, kind, n0, n1, q0, q1, q2, q3]
    }

    #[inline]
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, RecordError> {
        let version = reader.u8("version")?;
        if version != VERSION {
            return Err(RecordError::Version { version });
        }
        let kind = reader.u8("kind")?;
        let namespace = reader.u16("namespace")?;
        if namespace != DEFAULT_NAMESPACE {
            return Err(RecordError::Namespace { namespace });
        }
        Ok(Self { kind, queue: QueueId(reader.u32("store")?) })
    }
}
