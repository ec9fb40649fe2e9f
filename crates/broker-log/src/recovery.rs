//! Recovery of a journal from the files of a directory.
//!
//! Invariant: everything that was ever reported durable is found, or recovery fails and names the place; what was
//! not reported may be found or not, but only whole units and no gap between them. Nothing is changed on disk
//! before all of it is read.

mod open;
mod replay;

use crate::{
    Damage, Disk, Durability, Journal, JournalConfig, Position, RecordView, RecoveryError,
    error::DamageKind,
    file_inventory::{FileInventory, SegmentFile, inventory},
    recovery::{open::open, replay::Replay},
    scan::{ScanEnd, Scanner},
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
    let config = config.bounded();
    if config.durability == Durability::None {
        return Ok(Journal::in_memory(config));
    }
    let mut inventory = inventory(&disk)?;
    let tip = Tip::find(&disk, &inventory)?;
    let live = Live::select(&mut inventory, &tip)?;
    let replay = Replay::run(&disk, &config, &live, &tip, sink)?;
    refuse_orphans(&disk, &inventory, replay.end)?;
    let found = open(&disk, &config, inventory, replay)?;
    Ok(Journal::new(config, Some(Box::new(disk)), found))
}

/// The end of the newest segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tip {
    /// Position behind the last whole batch.
    pub position: u64,
    /// Start of replay, as the newest batch states it.
    pub tail: u64,
    /// Durable position, as the newest batch states it.
    pub synced: u64,
    /// Durable position, as intact batches behind the tip state it: past the tip when a batch is missing there.
    pub claimed: u64,
    /// Reason why there is no batch at the tip.
    pub fault: Option<DamageKind>,
}

impl Tip {
    /// Reads the newest segment to its end.
    pub(crate) fn find(disk: &dyn Disk, inventory: &FileInventory) -> Result<Self, RecoveryError> {
        let Some(newest) = inventory.segments.last() else { return Ok(Self::default()) };
        let failed = |error| RecoveryError::disk("reading", Some(newest.file), &error);
        let mut scanner = Scanner::new(newest.file, &newest.header, newest.length);
        let mut tip = Self {
            position: scanner.position(),
            tail: newest.header.tail,
            synced: newest.header.synced,
            ..Self::default()
        };
        let mut closed = false;
        loop {
            match scanner.next(disk) {
                Ok(batch) => {
                    tip.position = batch.end();
                    tip.tail = tip.tail.max(batch.header.tail);
                    tip.synced = tip.synced.max(batch.header.synced);
                    closed = batch.header.kind == crate::format::BatchKind::Closed;
                }
                Err(ScanEnd::Io(error)) => return Err(failed(error)),
                Err(ScanEnd::Bad(fault)) => {
                    tip.fault = Some(fault);
                    break;
                }
            }
        }
        tip.claimed = tip.synced;
        if !closed {
            let behind = scanner.claims_from(disk, tip.position).map_err(failed)?;
            tip.claimed = tip.claimed.max(behind);
        }
        if tip.claimed > tip.position {
            return Err(damaged(Some(newest), tip.position, tip.fault, tip.claimed));
        }
        Ok(tip)
    }
}

/// The segments that are replayed, oldest first.
#[derive(Debug)]
pub(crate) struct Live {
    pub segments: Vec<SegmentFile>,
}

impl Live {
    /// Takes the segments from the tail on; older ones become spares.
    fn select(inventory: &mut FileInventory, tip: &Tip) -> Result<Self, RecoveryError> {
        let all = std::mem::take(&mut inventory.segments);
        let (dead, segments): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|present| present.header.base < tip.tail);
        inventory.spares.extend(dead.iter().map(|present| (present.file, present.length)));
        match segments.first() {
            Some(first) if first.header.base > tip.tail => {
                Err(damaged(None, tip.tail, Some(DamageKind::NoSegment), tip.synced))
            }
            None if tip.tail > 0 => Err(damaged(None, tip.tail, Some(DamageKind::NoSegment), tip.synced)),
            _ => Ok(Self { segments }),
        }
    }
}

/// A file with a broken header may be a segment that was in use: then its batches say so. The journal goes on at `end`, which
/// lies before the tip where segments behind a cut are dropped.
fn refuse_orphans(disk: &dyn Disk, inventory: &FileInventory, end: u64) -> Result<(), RecoveryError> {
    for (file, length) in &inventory.unknown {
        let failed = |error| RecoveryError::disk("reading", Some(*file), &error);
        let Some(header) = Scanner::orphan(disk, *file, *length).map_err(failed)? else { continue };
        let claimed = Scanner::new(*file, &header, *length).claims_from(disk, header.base).map_err(failed)?;
        if claimed > end {
            return Err(RecoveryError::Damaged(Damage {
                file: Some(*file),
                offset: 0,
                position: Position(end),
                fault: DamageKind::NoSegment,
                durable: Position(claimed),
            }));
        }
    }
    Ok(())
}

pub(crate) fn damaged(
    present: Option<&SegmentFile>,
    position: u64,
    fault: Option<DamageKind>,
    durable: u64,
) -> RecoveryError {
    RecoveryError::Damaged(Damage {
        file: present.map(|present| present.file),
        offset: present.map_or(0, |present| position - present.header.base),
        position: Position(position),
        fault: fault.unwrap_or(DamageKind::NoBatch),
        durable: Position(durable),
    })
}

#[cfg(test)]
mod tests;
