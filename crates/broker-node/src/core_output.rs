//! Output of the cores during one round: the journal and the outbox.
//!
//! Invariant: the records of one command are appended between two commits, so they land in one journal batch. Each record
//! carries the slot of the namespace whose core made it.

use broker_core::{
    ClientId, Effect, NamespaceLimit, NamespaceSlot, Output, Position, QuotaError, Read, ReadId,
    StorageError, StoredRecord, Work,
};
use broker_log::{Journal, Owner};

use crate::{NamespaceId, namespace::usage::NamespaceUsage, outbox::Outbox};

/// Destination of all that the cores of a node make.
#[derive(Debug)]
pub(crate) struct NodeOutput {
    pub(crate) journal: Journal,
    pub(crate) outbox: Outbox,
    /// Behind the last record that effects wait for: the end of the journal when it was appended.
    pub(crate) awaited: broker_log::Position,
    /// The process uses as much memory as it may.
    pub(crate) memory_full: bool,
    /// Clients whose deferred commands were all handled, or dropped, and that nobody was told of.
    pub(crate) caught_up: Vec<(NamespaceId, ClientId)>,
    /// A record's index with the slot of its namespace; empty between records.
    index: Vec<u8>,
}

impl NodeOutput {
    /// All that was recovered is durable.
    pub(crate) fn new(journal: Journal) -> Self {
        let awaited = journal.durable();
        Self {
            journal,
            outbox: Outbox::default(),
            awaited,
            memory_full: false,
            caught_up: Vec::new(),
            index: Vec::new(),
        }
    }

    /// The output of one namespace's core, for one call.
    pub(crate) fn of<'a>(
        &'a mut self,
        id: NamespaceId,
        usage: &'a mut NamespaceUsage,
        round: RoundLimit,
    ) -> CoreOutput<'a> {
        CoreOutput { output: self, id, usage, round, work_until: round.work }
    }

    /// Appends one record with the slot of its namespace.
    #[inline]
    pub(crate) fn append(
        &mut self,
        slot: NamespaceSlot,
        index: &[u8],
        rest: &[&[u8]],
    ) -> (broker_log::Position, u32) {
        let owner = owner_of(slot);
        // The cores write slot 0.
        if slot == NamespaceSlot::DEFAULT {
            return self.journal.append_of(owner, index, rest);
        }
        self.index.clear();
        self.index.extend_from_slice(index);
        slot.write_into(&mut self.index);
        self.journal.append_of(owner, &self.index, rest)
    }

    /// Whether there is memory for more entities, rules and namespaces.
    pub(crate) fn check_memory(&self) -> Result<(), QuotaError> {
        if self.memory_full { Err(QuotaError::Memory) } else { Ok(()) }
    }

    /// Effects wait for what was appended so far.
    #[inline]
    pub(crate) fn await_end(&mut self) {
        self.awaited = self.journal.end();
    }
}

/// The owner of a namespace's records in the journal.
pub(crate) const fn owner_of(slot: NamespaceSlot) -> Owner {
    Owner(slot.0)
}

/// The core's `Output`, lent to it for one call.
pub(crate) struct CoreOutput<'a> {
    output: &'a mut NodeOutput,
    id: NamespaceId,
    usage: &'a mut NamespaceUsage,
    round: RoundLimit,
    /// Work of this round at which the call ends.
    work_until: Work,
}

/// Limits of one namespace in one round: its shares of the round, and the bytes that may wait for the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundLimit {
    /// Bytes of records and of large answers that the namespace may have made in this round.
    pub(crate) share: u64,
    /// Work that may have been done for it in this round. Commands get half of it at the most: a namespace that is sent to
    /// without a pause must deliver, too.
    pub(crate) work: Work,
    /// Bytes of its records that may wait for the disk.
    pub(crate) unwritten: u64,
    /// End of the journal at which so much waits for the disk that the round is full for all.
    pub(crate) full_at: u64,
}

impl RoundLimit {
    /// The same limits of what waits for the disk, and none for the round.
    pub(crate) fn of_the_disk(self) -> Self {
        Self { share: u64::MAX, work: Work(u64::MAX), ..self }
    }

    /// Whether a limit for commands has come.
    #[inline]
    pub(crate) fn is_full(self, usage: &NamespaceUsage, journal: &Journal) -> bool {
        usage.of_round() >= self.share
            || usage.work_of_round().0 >= (self.work.0 / 2).max(1)
            || journal.end().0 >= self.full_at
            || self.is_behind(usage)
    }

    /// Whether as much of the namespace waits for the disk as may.
    #[inline]
    pub(crate) fn is_behind(self, usage: &NamespaceUsage) -> bool {
        usage.unwritten_bytes() >= self.unwritten
    }
}

impl CoreOutput<'_> {
    /// The next call of the core may do this share of the work that is left: all of it, or one part of so many; one step at
    /// least.
    pub(crate) fn allow_work(&mut self, parts: u64) {
        let done = self.usage.work_of_round();
        let left = self.round.work.0.saturating_sub(done.0);
        self.work_until = done + Work((left / parts).max(1));
    }

    /// No client has asked for the work since `before`.
    pub(crate) fn note_background(&mut self, before: Work) {
        self.usage.note_background(before);
    }

    /// Charges the reads for which this thread has waited since there were so many.
    #[inline]
    fn charge_reads(&mut self, before: u64) {
        let reads = self.output.journal.disk_reads() - before;
        if reads > 0 {
            self.usage.charge(Work::DISK_READ.times(reads));
        }
    }

    /// The namespace has asked again for all that was read for it.
    pub(crate) fn release_windows(&mut self) {
        self.output.journal.release_windows(owner_of(self.id.slot));
    }

    /// Ends an atomic unit.
    pub(crate) fn commit(&mut self) {
        self.output.journal.commit();
    }
}

impl Output for CoreOutput<'_> {
    #[inline]
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let (at, length) = self.output.append(self.id.slot, index, rest);
        self.usage.append(length);
        self.output.await_end();
        (Position(at.0), length)
    }

    #[inline]
    fn record_unawaited(&mut self, index: &[u8]) -> (Position, u32) {
        let (at, length) = self.output.append(self.id.slot, index, &[]);
        self.usage.append(length);
        (Position(at.0), length)
    }

    #[inline]
    fn effect(&mut self, client: ClientId, effect: Effect) {
        let bytes = self.output.outbox.push(self.id, client, effect);
        self.usage.answer(bytes);
    }

    #[inline]
    fn read(&mut self, at: Position, length: u32) -> Result<StoredRecord, StorageError> {
        let reads = self.output.journal.disk_reads();
        let found = self.output.journal.read_of(owner_of(self.id.slot), broker_log::Position(at.0), length);
        self.charge_reads(reads);
        found.map_err(|error| StorageError { at, reason: error.to_string().into() })
    }

    #[inline]
    fn read_soon(&mut self, at: Position, length: u32) -> Result<Read, StorageError> {
        let reads = self.output.journal.disk_reads();
        let (owner, place) = (owner_of(self.id.slot), broker_log::Position(at.0));
        let found = self.output.journal.read_soon_of(owner, place, length);
        self.charge_reads(reads);
        match found {
            Ok(broker_log::Read::Record(record)) => Ok(Read::Record(record)),
            Ok(broker_log::Read::Pending(read)) => Ok(Read::Pending(ReadId(read.0))),
            Err(error) => Err(StorageError { at, reason: error.to_string().into() }),
        }
    }

    fn prefetch(&mut self, records: &[(Position, u32)]) {
        self.output
            .journal
            .prefetch(records.iter().map(|(at, length)| (broker_log::Position(at.0), *length)));
    }

    #[inline]
    fn release(&mut self, at: Position, length: u32) {
        self.usage.release(length);
        self.output.journal.release(broker_log::Position(at.0), length);
    }

    fn readable(&self) -> Position {
        Position(self.output.journal.committed().0)
    }

    fn check_storage(&self) -> Result<(), QuotaError> {
        if self.output.journal.storage_full() {
            return Err(QuotaError::Storage);
        }
        self.output.check_memory()?;
        let bytes = self.usage.live_bytes();
        match self.usage.limits.get(NamespaceLimit::Bytes).filter(|limit| bytes >= *limit) {
            Some(limit) => Err(QuotaError::Namespace { bytes, limit }),
            None => Ok(()),
        }
    }

    fn check_memory(&self) -> Result<(), QuotaError> {
        self.output.check_memory()
    }

    #[inline]
    fn charge(&mut self, work: Work) {
        self.usage.charge(work);
    }

    #[inline]
    fn work_left(&self) -> Work {
        Work(self.work_until.0.saturating_sub(self.usage.work_of_round().0))
    }

    #[inline]
    fn round_is_full(&self) -> bool {
        self.round.is_full(self.usage, &self.output.journal)
    }
}
