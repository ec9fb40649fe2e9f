//! Recovery of a journal from the files of a directory.
//!
//! Invariant: everything that was ever reported durable is found, or recovery fails and names the place; what was
//! not reported may be found or not, but only whole units and no gap between them. Nothing is changed on disk
//! before all of it is read.

mod live;
mod open;
mod replay;

use crate::{
    Damage, Disk, Durability, Journal, JournalConfig, Position, RecordView, RecoveryError,
    error::DamageKind,
    file_inventory::{FileInventory, SegmentFile, inventory},
    orphans::orphans,
    readable_disk::ReadableDisk,
    recovery::{
        live::{Live, Tip},
        open::open,
        replay::Replay,
    },
    scan::Scanner,
};

/// Opens the journal on `disk`: checks it, shows every record in order to `sink`, cuts off what a crash left
/// half written, and returns the journal ready for appending. On an empty disk it begins a new one.
///
/// Every record counts as live until it is released (or see [`Journal::set_live`]). With durability `none` the
/// disk is left alone.
pub fn recover<D: Disk + 'static>(
    disk: D,
    config: JournalConfig,
    sink: &mut dyn FnMut(Position, RecordView<'_>),
) -> Result<Journal, RecoveryError> {
    read(disk, config, sink)?.open()
}

/// A journal that is whole as far as it was read. Nothing on disk was changed.
#[derive(Debug)]
pub struct ReadJournal<D> {
    disk: D,
    config: JournalConfig,
    /// With durability `none` there are none.
    found: Option<(FileInventory, Replay)>,
}

/// Reads the journal on `disk` as [`recover`] does, and changes nothing: the caller may refuse what it was shown.
pub fn read<D: Disk + 'static>(
    disk: D,
    config: JournalConfig,
    sink: &mut dyn FnMut(Position, RecordView<'_>),
) -> Result<ReadJournal<D>, RecoveryError> {
    let config = config.bounded();
    if config.durability == Durability::None {
        return Ok(ReadJournal { disk, config, found: None });
    }
    let mut inventory = inventory(&disk)?;
    inventory.demand_shard(config.shard)?;
    let unreadable = inventory.unreadable.first().map(|(_, _, error)| error.clone());
    let replay = match (replay(&disk, &config, &mut inventory, sink), unreadable) {
        (Ok(replay), Some(error)) if may_lack_a_segment(&replay) => return Err(error),
        // The part that is missing may lie there.
        (Err(RecoveryError::Damaged(_)), Some(error)) => return Err(error),
        (done, _) => done?,
    };
    Ok(ReadJournal { disk, config, found: Some((inventory, replay)) })
}

fn replay(
    disk: &dyn Disk,
    config: &JournalConfig,
    inventory: &mut FileInventory,
    sink: &mut dyn FnMut(Position, RecordView<'_>),
) -> Result<Replay, RecoveryError> {
    let tip = Tip::find(disk, inventory)?;
    let orphans = orphans(&ReadableDisk::new(disk), inventory)?;
    let live = Live::select(inventory, &tip)?;
    let replay = Replay::run(disk, config, &live, &tip, sink)?;
    refuse_orphans(disk, &orphans, replay.end)?;
    Ok(replay)
}

/// Whether a segment of the journal may lie in a file whose first bytes cannot be read: one segment is begun only when the one before it is
/// sealed. Where the newest is not, such a file holds nothing that matters: it lies before the tail, or is a spare.
fn may_lack_a_segment(replay: &Replay) -> bool {
    replay.segments.is_empty() || replay.sealed || !replay.dropped.is_empty()
}

impl<D: Disk + 'static> ReadJournal<D> {
    /// Cuts off what a crash left half written, and returns the journal ready for appending.
    pub fn open(self) -> Result<Journal, RecoveryError> {
        let Self { disk, config, found } = self;
        let Some((inventory, replay)) = found else { return Ok(Journal::in_memory(config)) };
        let found = open(&disk, &config, inventory, replay)?;
        Ok(Journal::new(config, Some(Box::new(disk)), found))
    }
}

/// A file with a broken header may be a segment that was in use: then its batches say so. The journal goes on at `end`, which
/// lies before the tip where segments behind a cut are dropped.
fn refuse_orphans(disk: &dyn Disk, orphans: &[SegmentFile], end: u64) -> Result<(), RecoveryError> {
    for orphan in orphans {
        let header = &orphan.header;
        let claimed = Scanner::new(orphan.file, header, orphan.length)
            .claims_from(&ReadableDisk::new(disk), header.base)?;
        if claimed > end {
            return Err(RecoveryError::Damaged(Damage {
                file: Some(orphan.file),
                offset: 0,
                position: Position(end),
                fault: DamageKind::NoSegment,
                durable: Position(claimed),
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
