//! Migration of a journal that ferrybus 0.1.0 wrote into one of the present format.
//!
//! Invariant: the old journal is only read, and only if all of it that was ever durable is whole; each unit that it holds is
//! in the new one, whole, and in the same order.

mod folder;

pub use folder::{MigrateFolderError, MigratedFolder, migrate_folder};

use crate::{
    Damage, Disk, DiskWorker, Journal, JournalConfig, PoisonReason, Position, RecoveryError,
    check::report,
    config::RECORD_BYTES_MAX,
    format::{BatchKind, VERSION_0_1},
    readable_disk::ReadableDisk,
    recover,
    scan::{ScanEnd, Scanner},
    verify::{Segment, VerifiedJournal, verify_journal},
};

/// Converts the index of one record of the old format to the present format.
pub type ConvertIndex<'a, E> = &'a mut dyn FnMut(&[u8]) -> Result<Vec<u8>, E>;

/// Result of a migration.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Migrated {
    /// Records that were copied.
    pub records: u64,
    /// Their bytes, as they are in the new journal.
    pub bytes: u64,
    /// Records that an earlier repair gave up: they are not in the new journal.
    pub lost_records: u64,
}

/// The journal was not migrated. The old one is as it was.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MigrateError<E> {
    /// The old journal cannot be read, or the new one cannot be begun.
    #[error(transparent)]
    Journal(#[from] RecoveryError),
    /// The journal has the present format, or there is none.
    #[error("the journal does not have the format of ferrybus 0.1.0")]
    NotOlder,
    /// Acknowledged records of the old journal are damaged.
    #[error("the journal is damaged, repair it before it is migrated: {0}")]
    Damaged(Damage),
    /// The new journal could not be written.
    #[error("{0}")]
    Write(PoisonReason),
    /// A record of the old journal has no counterpart in the new one.
    #[error("the record at position {at}: {error}")]
    Record { at: Position, error: E },
}

/// Copies the journal of ferrybus 0.1.0 on `from` to the empty disk `to`. `convert` gets the index of each record and returns
/// the index that the record has in the present format; what follows the index stays as it is. When this returns, the new
/// journal is durable and closed.
pub fn migrate<D: Disk + Clone + 'static, E>(
    from: &dyn Disk,
    to: D,
    config: JournalConfig,
    convert: ConvertIndex<'_, E>,
) -> Result<Migrated, MigrateError<E>> {
    let readable = ReadableDisk::new(from);
    let verified = verify_journal(&readable)?;
    let older = |segment: &Segment| segment.present.header.version == VERSION_0_1;
    if verified.segments.is_empty() || !verified.segments.iter().all(older) {
        return Err(MigrateError::NotOlder);
    }
    let report = report(&readable, &verified)?;
    if let Some(loss) = report.losses.into_iter().next() {
        return Err(MigrateError::Damaged(loss.damage));
    }
    // A record of the largest size may grow by a few bytes.
    let config = JournalConfig { max_record_bytes: RECORD_BYTES_MAX, ..config };
    let journal = recover(to.clone(), config, &mut |_, _| {})?;
    let mut copy = Copy { journal, worker: DiskWorker::new(to), convert, migrated: Migrated::default() };
    copy.all(from, &verified)?;
    copy.migrated.lost_records = report.lost_records;
    copy.close()
}

struct Copy<'a, D, E> {
    journal: Journal,
    worker: DiskWorker<D>,
    convert: ConvertIndex<'a, E>,
    migrated: Migrated,
}

impl<D: Disk, E> Copy<'_, D, E> {
    fn all(&mut self, from: &dyn Disk, verified: &VerifiedJournal) -> Result<(), MigrateError<E>> {
        for segment in &verified.segments {
            let present = &segment.present;
            let mut scanner = Scanner::new(present.file, &present.header, present.length);
            while scanner.position() < segment.end {
                let batch = match scanner.next(from) {
                    Ok(batch) => batch,
                    Err(ScanEnd::Failed(error)) => return Err(error.into()),
                    // It was whole a moment ago.
                    Err(ScanEnd::Bad(fault)) => {
                        return Err(MigrateError::Damaged(Damage {
                            file: Some(present.file),
                            offset: scanner.position() - present.header.base,
                            position: Position(scanner.position()),
                            fault,
                            durable: Position(verified.claimed),
                        }));
                    }
                };
                if batch.header.kind == BatchKind::Data {
                    for stored in batch.records() {
                        self.record(Position(stored.at), stored.header.index, &stored.bytes)?;
                    }
                    // A batch holds whole units, so one of the old batches is one unit of the new journal.
                    self.journal.commit();
                    self.write()?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, at: Position, index: u32, bytes: &[u8]) -> Result<(), MigrateError<E>> {
        let length = usize::try_from(index).unwrap_or(usize::MAX).min(bytes.len());
        let (index, rest) = bytes.split_at(length);
        let index = (self.convert)(index).map_err(|error| MigrateError::Record { at, error })?;
        let (_, length) = self.journal.append(&index, &[rest]);
        self.migrated.records += 1;
        self.migrated.bytes += u64::from(length);
        Ok(())
    }

    /// Does the disk work that there is. The journal writes in large groups as long as nobody waits.
    fn write(&mut self) -> Result<(), MigrateError<E>> {
        while let Some(request) = self.journal.poll_io() {
            self.journal.handle_io(self.worker.perform(request));
        }
        match self.journal.poisoned() {
            Some(reason) => Err(MigrateError::Write(reason.clone())),
            None => Ok(()),
        }
    }

    fn close(mut self) -> Result<Migrated, MigrateError<E>> {
        self.journal.request_close();
        self.write()?;
        debug_assert!(self.journal.is_closed(), "all disk work is done");
        Ok(self.migrated)
    }
}

#[cfg(test)]
mod tests;
