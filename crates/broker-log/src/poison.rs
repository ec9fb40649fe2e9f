//! Poisoning: after a failed write or sync the journal acknowledges nothing.
//!
//! Invariant: after the first failed write or sync nothing becomes durable; only a restart, which reads what is
//! really on the disk, ends it.

use std::io;

use crate::FileId;

/// Operation of the disk that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskOperation {
    /// Creating a segment file.
    Create,
    /// Writing records.
    Write,
    /// `fdatasync`. Never tried again: the kernel may have dropped what it could not write.
    Sync,
    /// Writing a spare segment ahead with zeros.
    Prepare,
    /// Deleting a segment file.
    Delete,
}

impl std::fmt::Display for DiskOperation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}

impl DiskOperation {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Create => "creating",
            Self::Write => "writing",
            Self::Sync => "syncing",
            Self::Prepare => "preparing",
            Self::Delete => "deleting",
        }
    }
}

/// An operation on the disk that did not succeed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{operation} `{file}`: {message}")]
pub struct DiskFailure {
    pub operation: DiskOperation,
    pub file: FileId,
    /// The operating system's kind of error.
    pub kind: io::ErrorKind,
    /// The operating system's words.
    pub message: Box<str>,
}

impl DiskFailure {
    pub(crate) fn new(operation: DiskOperation, file: FileId, error: &io::Error) -> Self {
        Self { operation, file, kind: error.kind(), message: error.to_string().into() }
    }
}

/// Reason why the journal acknowledges nothing any more: the process should end and recover.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PoisonReason {
    /// A write or sync failed: the content of the disk is unknown until it is read again.
    #[error("the journal stopped: {0}; nothing after it is acknowledged, a restart recovers")]
    Disk(DiskFailure),
    /// Not even settlements can be written.
    #[error(
        "the journal stopped: no space left on its disk ({0}); free some and start again, nothing acknowledged is lost"
    )]
    DiskFull(DiskFailure),
}

impl From<DiskFailure> for PoisonReason {
    fn from(failure: DiskFailure) -> Self {
        match failure.kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(failure),
            _ => Self::Disk(failure),
        }
    }
}
