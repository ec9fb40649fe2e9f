//! Where the core's decisions go, and where it reads a stored message back.
//!
//! Invariant: the core keeps no payload; it remembers positions, and reads through this trait.

use bytes::Bytes;

use crate::{ClientId, Effect, Position};

/// A record's bytes as they were appended.
pub type StoredRecord = Bytes;

/// The stored bytes could not be read: the disk failed, or they fail their checksum.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record at position {} cannot be read: {reason}", at.0)]
pub struct StorageError {
    /// Where it should be.
    pub at: Position,
    /// What went wrong.
    pub reason: Box<str>,
}

/// The core's surroundings, implemented by `broker-node`.
pub trait Output {
    /// Appends one record, given in parts that belong together, and says where it begins.
    /// All records of one command end up in one atomic journal batch.
    fn record(&mut self, parts: &[&[u8]]) -> Position;
    /// Tells a client something; released when all records appended before are durable.
    fn effect(&mut self, client: ClientId, effect: Effect);
    /// Reads a record back, from memory if it is recent, else from disk.
    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError>;
    /// True while the disk's reserve is in use: sends are refused, settlements go on.
    fn storage_full(&self) -> bool;
}
