//! Output of the core during one round: the journal and the outbox.
//!
//! Invariant: the records of one command are appended between two commits, so they land in one journal batch.

use broker_core::{ClientId, Effect, Output, Position, StorageError, StoredRecord};
use broker_log::Journal;

use crate::outbox::Outbox;

/// The core's `Output`, lent to it for one call.
pub(crate) struct CoreOutput<'a> {
    pub(crate) journal: &'a mut Journal,
    pub(crate) outbox: &'a mut Outbox,
    /// Behind the last record that effects wait for: the end of the journal when it was appended.
    pub(crate) awaited: &'a mut broker_log::Position,
    pub(crate) round: RoundLimit,
}

/// Limits of one round: its size, and the bytes that may wait for the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundLimit {
    /// End of the journal at which the round is full. Large answers count as if they were recorded.
    pub(crate) full_at: u64,
}

impl RoundLimit {
    /// Whether it has come.
    pub(crate) fn is_full(self, journal: &Journal, outbox: &Outbox) -> bool {
        journal.end().0.saturating_add(outbox.bytes()) >= self.full_at
    }
}

impl Output for CoreOutput<'_> {
    #[inline]
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let (at, length) = self.journal.append(index, rest);
        *self.awaited = self.journal.end();
        (Position(at.0), length)
    }

    #[inline]
    fn record_unawaited(&mut self, index: &[u8]) -> (Position, u32) {
        let (at, length) = self.journal.append(index, &[]);
        (Position(at.0), length)
    }

    #[inline]
    fn effect(&mut self, client: ClientId, effect: Effect) {
        self.outbox.push(client, effect);
    }

    #[inline]
    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError> {
        self.journal
            .read(broker_log::Position(at.0), length)
            .map_err(|error| StorageError { at, reason: error.to_string().into() })
    }

    fn prefetch(&mut self, records: &[(Position, u32)]) {
        self.journal.prefetch(records.iter().map(|(at, length)| (broker_log::Position(at.0), *length)));
    }

    #[inline]
    fn release(&mut self, at: Position, length: u32) {
        self.journal.release(broker_log::Position(at.0), length);
    }

    fn readable(&self) -> Position {
        Position(self.journal.committed().0)
    }

    fn storage_full(&self) -> bool {
        self.journal.storage_full()
    }

    fn round_is_full(&self) -> bool {
        self.round.is_full(self.journal, self.outbox)
    }
}
