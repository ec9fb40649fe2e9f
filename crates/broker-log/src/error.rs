//! Errors of reading and recovery.
//!
//! Invariant: every error names the file and the offset, so that an operator can look.

use std::io;

use crate::{DiskFailure, FileId, Position};

/// A stored record cannot be read back.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ReadError {
    /// The journal holds no such position: released and recycled, or never appended.
    #[error("position {at} is not in the journal, which holds {tail} to {end}")]
    NotFound { at: Position, tail: Position, end: Position },
    /// The record there is of another length: the caller's mistake.
    #[error("the record at position {at} has {found} bytes, not {asked}")]
    OtherLength {
        at: Position,
        /// The length the caller expects.
        asked: u32,
        found: u32,
    },
    /// The record fails its checksum.
    #[error("`{file}` is damaged at offset {offset}: the record at position {at} fails its checksum")]
    Corrupt {
        at: Position,
        file: FileId,
        /// Byte offset in the file.
        offset: u64,
    },
    /// The disk could not read.
    #[error("reading `{file}` at offset {offset}: {message}")]
    Disk {
        at: Position,
        file: FileId,
        /// Byte offset in the file.
        offset: u64,
        /// The operating system's words.
        message: Box<str>,
    },
}

/// Kind of damage at a position of the journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DamageKind {
    /// No batch begins where one must.
    #[error("no batch begins here")]
    NoBatch,
    /// A batch whose length reaches beyond its segment.
    #[error("the batch reaches beyond its segment")]
    Overlong,
    /// A batch of another place or another life of the file.
    #[error("the batch belongs elsewhere")]
    Misplaced,
    /// A batch that does not follow the one before it.
    #[error("the batch does not follow the one before it")]
    Unchained,
    /// A batch or record fails its checksum.
    #[error("the checksum is wrong")]
    Checksum,
    /// The records of a batch do not fill it.
    #[error("the records do not fill their batch")]
    Records,
    /// The segment that must begin here is missing or has no valid header.
    #[error("the segment that begins here is missing or its header is damaged")]
    NoSegment,
    /// The disk fails to read it.
    #[error("the disk cannot read it")]
    Unreadable,
}

/// A part of a journal that this version of the program gives no meaning, although its checksum is right.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NewerPart {
    /// The format version in the header of a segment.
    #[error("format {0}")]
    Format(u32),
    /// Flags in the header of a segment.
    #[error("segment flags {0:#x}")]
    SegmentFlags(u32),
    /// Bits beside the chain value in the header of a segment.
    #[error("segment bits {0:#x}")]
    SegmentResume(u64),
    #[error("batch kind {0}")]
    BatchKind(u16),
    #[error("batch flags {0:#x}")]
    BatchFlags(u16),
    /// Bits of the field whose meaning depends on the kind of a batch.
    #[error("batch bits {0:#x}")]
    BatchExtra(u64),
    /// The version of a mark, the first batch of a segment.
    #[error("mark version {0}")]
    MarkVersion(u16),
    #[error("mark flags {0:#x}")]
    MarkFlags(u16),
    /// The number of members of a mark: the journal is replicated.
    #[error("a replicated journal of {0} members")]
    Members(u16),
    /// The term of a mark: the journal is replicated.
    #[error("a replicated journal, in term {0}")]
    Term(u64),
}

/// A place that is damaged although it was once durable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{}: position {position} is damaged: {fault}; everything up to position {durable} was durable once",
    FileOffset { file: *file, offset: *offset }
)]
pub struct Damage {
    /// The file; `None` when it is missing.
    pub file: Option<FileId>,
    /// Byte offset in the file.
    pub offset: u64,
    /// Position of the damage: what is before it is whole.
    pub position: Position,
    pub fault: DamageKind,
    /// Durable position, as intact batches behind the damage state it.
    pub durable: Position,
}

struct FileOffset {
    file: Option<FileId>,
    offset: u64,
}

impl std::fmt::Display for FileOffset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.file {
            Some(file) => write!(f, "`{file}` at offset {}", self.offset),
            None => f.write_str("a missing file"),
        }
    }
}

/// The journal cannot be opened.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecoveryError {
    /// Acknowledged records are damaged. Nothing was changed; `ferrybus journal check` says what is lost,
    /// `ferrybus journal repair` goes on without it.
    #[error("the journal is damaged: {0}")]
    Damaged(Damage),
    /// Ferrybus 0.1.0 wrote it, whose format has to be migrated first. Nothing was changed.
    #[error(
        "`{file}` has the format of ferrybus 0.1.0: `ferrybus journal migrate` rewrites the journal in the present one"
    )]
    Older { file: FileId },
    /// A newer version of the program wrote it. Nothing was changed.
    #[error(
        "`{file}` at offset {offset} was written by a newer version of ferrybus: {part} is not known to this one"
    )]
    Newer {
        file: FileId,
        /// Byte offset in the file.
        offset: u64,
        part: NewerPart,
    },
    /// It is the journal of another shard: its folder was copied or renamed. Nothing was changed.
    #[error(
        "`{file}` belongs to the journal of shard {found} and lies in the folder of shard {expected}: a folder was copied or renamed"
    )]
    OtherShard {
        file: FileId,
        /// The shard that the mark of the segment names.
        found: u32,
        expected: u32,
    },
    #[error("{action}{}: {message}", .file.map_or_else(String::new, |file| format!(" `{file}`")))]
    Disk {
        action: &'static str,
        /// On which file; `None`: the directory.
        file: Option<FileId>,
        /// The operating system's kind of error.
        kind: io::ErrorKind,
        /// The operating system's words.
        message: Box<str>,
    },
}

impl From<DiskFailure> for RecoveryError {
    fn from(failure: DiskFailure) -> Self {
        let action = failure.operation.words();
        Self::Disk { action, file: Some(failure.file), kind: failure.kind, message: failure.message }
    }
}

impl RecoveryError {
    /// The disk could not read at `offset` of the file.
    pub(crate) fn read(file: FileId, offset: u64, error: &io::Error) -> Self {
        let message = format!("at offset {offset}: {error}").into();
        Self::Disk { action: "reading", file: Some(file), kind: error.kind(), message }
    }

    pub(crate) fn disk(action: &'static str, file: Option<FileId>, error: &io::Error) -> Self {
        Self::Disk { action, file, kind: error.kind(), message: error.to_string().into() }
    }
}
