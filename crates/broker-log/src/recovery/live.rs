//! Segments that recovery replays: from the tail that the newest batch states to the tip, the end of the newest segment.
//!
//! Invariant: a batch that an intact batch claims to be durable lies before the tip, or recovery fails.

use crate::{
    Damage, Disk, Position, RecoveryError,
    error::DamageKind,
    file_inventory::{FileInventory, SegmentFile},
    format::BatchKind,
    scan::{ScanEnd, Scanner},
};

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
                    closed = batch.header.kind == BatchKind::Closed;
                }
                Err(ScanEnd::Failed(error)) => return Err(error),
                Err(ScanEnd::Bad(fault)) => {
                    tip.fault = Some(fault);
                    break;
                }
            }
        }
        tip.claimed = tip.synced;
        if !closed {
            let behind = scanner.claims_from(disk, tip.position)?;
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
    pub(crate) fn select(inventory: &mut FileInventory, tip: &Tip) -> Result<Self, RecoveryError> {
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
