//! Append-only journal of one shard: segments of checksummed batches, written with group commit, read back by
//! position, compacted oldest first, and recovered after a crash.
//!
//! A [`Journal`] runs on its owner's thread and does no writing itself: [`Journal::poll_io`] hands out work that
//! a [`DiskWorker`] performs on another thread, [`Journal::handle_io`] takes the results. It reads records that are not in
//! memory in the same way ([`Journal::read_soon_of`]), or, where the caller wants to wait for the disk, at once. [`recover`] makes a
//! journal from what is on a [`Disk`]. The bytes on disk are described in `docs/disk-format.md`.
//!
//! Invariant: what [`Journal::durable`] has passed is found by every later recovery, whole and in order, until its
//! segment is compacted; damage to it is reported, never skipped. The journal does not interpret records.

mod appender;
mod background_io;
mod batch_repair;
mod check;
mod compaction;
mod config;
mod crc;
mod disk;
mod disk_space;
mod error;
mod file_inventory;
mod format;
mod journal;
mod mark;
mod migrate;
mod orphans;
mod owner;
mod poison;
mod position;
mod read_ahead;
mod readable_disk;
mod record_view;
mod recovery;
mod repair;
mod scan;
mod segment_pool;
mod segments;
mod summary;
mod verify;
mod work;
mod write_cache;
mod write_progress;
mod writer;

pub use check::{Loss, Report, SegmentReport, check};
pub use compaction::CompactionStep;
pub use config::{Durability, JournalConfig};
pub use disk::{Disk, DiskCall, Exposure, Faults, FaultyDisk, MemDisk, OpenError, RealDisk};
pub use error::{Damage, DamageKind, NewerPart, ReadError, RecoveryError};
pub use journal::{Journal, JournalStats};
pub use migrate::{
    ConvertIndex, MigrateError, MigrateFolderError, Migrated, MigratedFolder, migrate, migrate_folder,
};
pub use owner::{Owner, OwnerStats};
pub use poison::{DiskFailure, DiskOperation, PoisonReason};
pub use position::{FileId, Position};
pub use read_ahead::{Read, ReadId};
pub use record_view::RecordView;
pub use recovery::{ReadJournal, read, recover};
pub use repair::{Repaired, repair};
pub use work::{DiskWorker, IoDone, IoRequest};
