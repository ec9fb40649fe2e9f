//! Reads of records, and the owner for whom each is.
//!
//! Invariant: no two reads of a journal have the same number.

use bytes::Bytes;

use crate::Owner;

/// Number of a read of the disk. None is used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ReadId(pub u64);

/// Result of a read that does not wait for the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    /// The record.
    Record(Bytes),
    /// It will be there when this read is done.
    Pending(ReadId),
}

/// The owner for whom a record is read, and its weight.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reader {
    pub owner: Owner,
    pub weight: u64,
}
