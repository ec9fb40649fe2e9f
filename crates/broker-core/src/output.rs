//! Output of the core: it takes records and effects, and reads stored messages back.
//!
//! Invariant: the core keeps no payload; it remembers positions, and reads through this trait. It never asks for a
//! record that it appended in the same call.

use bytes::Bytes;

use crate::{ClientId, Effect, Position, QuotaError, Work};

/// A record's bytes as they were appended.
pub type StoredRecord = Bytes;

/// Number of a read of the disk. None is used twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ReadId(pub u64);

/// Result of a read that does not wait for the disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Read {
    Record(StoredRecord),
    /// It is to be asked for again when [`crate::Core::handle_read_done`] names this read.
    Pending(ReadId),
}

/// The stored bytes could not be read: the disk failed, or they fail their checksum.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("record at position {} cannot be read: {reason}", at.0)]
pub struct StorageError {
    pub at: Position,
    pub reason: Box<str>,
}

/// The core's environment, implemented by `broker-node`.
pub trait Output {
    /// Appends one record: the bytes of `index`, then those of `rest`. Says where it begins and the length by which
    /// `read` and `release` are to be asked. Replay needs the index alone. All records of one call of the core end
    /// up in one atomic journal batch.
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32);
    /// The same for a record that no effect waits for: the removal of a message whose receiver asked for no answer. It
    /// becomes durable soon, and before every record that is appended after it; if a crash comes first, it is lost and
    /// the message is delivered again. An implementation may let effects wait for it all the same.
    fn record_unawaited(&mut self, index: &[u8]) -> (Position, u32) {
        self.record(index, &[])
    }
    /// The record at `at` is dead: the journal need not carry it when it cleans up. It may be forgotten only after
    /// everything appended before this call is durable.
    fn release(&mut self, at: Position, length: u32);
    /// Tells a client something; released when every record that [`Output::record`] appended before is durable. Those
    /// of [`Output::record_unawaited`] may not be.
    fn effect(&mut self, client: ClientId, effect: Effect);
    /// Reads a record back, from memory if it is recent, else from disk, for which the caller waits.
    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError>;
    /// The same without waiting for the disk: a record that is not in memory is read meanwhile, and is to be asked for again. The
    /// work that this takes is not the caller's.
    fn read_soon(&mut self, at: Position, length: u32) -> Result<Read, StorageError> {
        self.read(at, length).map(Read::Record)
    }
    /// These records will be read soon, one after the other. What it takes to read them may be begun for all of them at
    /// once; nothing that shows depends on it.
    fn prefetch(&mut self, _records: &[(Position, u32)]) {}
    /// Records before this position can be read; those that this call appended lie behind it.
    fn readable(&self) -> Position;
    /// Whether more may be stored: the disk, the memory and the namespace have room. Without it, sends are refused, and receives and settlements go on.
    fn check_storage(&self) -> Result<(), QuotaError>;
    /// Whether entities and rules may be added: each takes memory for as long as it exists. A full disk does not refuse them.
    fn check_memory(&self) -> Result<(), QuotaError> {
        Ok(())
    }
    /// So much work was done. Records and effects are not counted here, for they are seen: an implementation counts them by
    /// itself, as it does reads.
    fn charge(&mut self, _work: Work) {}
    /// True when so much was done, or came of the last commands, that the next one of a batch should wait for another call. It
    /// is asked after each command, and nothing but the order of commands of several clients depends on it.
    fn round_is_full(&self) -> bool {
        false
    }
    /// Work that this call may still do beside handling commands: work that is due, and deliveries. Each call does one step at
    /// least.
    fn work_left(&self) -> Work {
        Work(u64::MAX)
    }
}
