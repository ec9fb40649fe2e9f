//! Work of the disk thread: the requests of the journal, and the worker that performs them.
//!
//! Invariant: writes are performed one at a time, and so is the work on files; a write and such work touch different files.
//! Reads may be performed beside both and beside each other: they touch no byte that is written.

use std::io::{self, IoSlice};

use bytes::Bytes;

use crate::{
    Disk, DiskFailure, DiskOperation, FileId, ReadId, RecoveryError, compaction::SegmentRead, format,
    read_ahead::WindowRead,
};

/// A unit of disk work, from [`crate::Journal::poll_io`].
#[derive(Debug)]
pub struct IoRequest(pub(crate) Request);

/// Result of one disk request, for [`crate::Journal::handle_io`].
#[derive(Debug)]
pub struct IoDone(pub(crate) Done);

impl IoRequest {
    /// Whether it writes records; otherwise it is preparation that no effect waits for.
    pub fn is_write(&self) -> bool {
        matches!(self.0, Request::Write(_))
    }

    /// Whether it reads records: those that somebody waits for, or will, and those that compaction walks through.
    pub fn is_read(&self) -> bool {
        matches!(self.0, Request::Read(_) | Request::ReadSegment(_))
    }

    /// Whether it reads what compaction walks through: nobody waits for it.
    pub fn is_for_compaction(&self) -> bool {
        matches!(self.0, Request::ReadSegment(_))
    }

    /// Whether a file has to be created first, which takes the file system far longer than a small write.
    pub fn creates_file(&self) -> bool {
        match &self.0 {
            Request::Write(write) => write.create.is_some(),
            Request::Prepare(prepare) => prepare.create.is_some(),
            Request::Delete(_) | Request::Measure | Request::Read(_) | Request::ReadSegment(_) => false,
        }
    }

    /// Records that will be written; what the journal writes of its own does not count.
    pub fn records(&self) -> u64 {
        match &self.0 {
            Request::Write(write) => write.records,
            _ => 0,
        }
    }

    /// Bytes that will be written.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Request::Write(write) => write.parts.iter().map(|part| part.len() as u64).sum(),
            Request::Prepare(prepare) => prepare.length,
            Request::Delete(_) | Request::Measure | Request::Read(_) | Request::ReadSegment(_) => 0,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Request {
    Write(Write),
    Prepare(Prepare),
    Delete(FileId),
    Measure,
    Read(WindowRead),
    ReadSegment(SegmentRead),
}

/// Append a group of batches.
#[derive(Debug)]
pub(crate) struct Write {
    pub file: FileId,
    /// The file must be created first, with this much room.
    pub create: Option<u64>,
    pub offset: u64,
    pub parts: Vec<Bytes>,
    pub records: u64,
    pub sync: bool,
}

/// Write a piece of a file ahead with zeros, so that writing there later changes no metadata.
#[derive(Debug)]
pub(crate) struct Prepare {
    pub file: FileId,
    /// The file must be created first, with this much room.
    pub create: Option<u64>,
    pub offset: u64,
    pub length: u64,
}

#[derive(Debug)]
pub(crate) enum Done {
    Written(Result<(), DiskFailure>, Option<u64>),
    Prepared(Prepare, Result<(), DiskFailure>, Option<u64>),
    Deleted(Result<(), DiskFailure>),
    Measured(Option<u64>),
    Read(ReadId, io::Result<Bytes>),
    SegmentRead(io::Result<Bytes>),
}

/// Performs the journal's disk work. It blocks: give it a thread of its own. Requests that write records, those that read
/// them and the others may be performed by workers on threads of their own, those that read by several.
#[derive(Debug)]
pub struct DiskWorker<D> {
    disk: D,
    /// Writes since the free space was last measured.
    unmeasured: u32,
}

/// Free space is measured with every so many writes: asking costs as much as a small write, and between two answers
/// the journal cannot grow by more than these writes.
const WRITES_PER_MEASURE: u32 = 32;
/// A write this large, in bytes, is always followed by a measurement.
const LARGE_WRITE: u64 = 4 << 20;

impl<D: Disk> DiskWorker<D> {
    /// A worker on `disk`, the same that the journal was recovered from.
    pub fn new(disk: D) -> Self {
        Self { disk, unmeasured: WRITES_PER_MEASURE }
    }

    /// Does one unit of work.
    pub fn perform(&mut self, request: IoRequest) -> IoDone {
        IoDone(match request.0 {
            Request::Write(write) => {
                let result = self.write(&write);
                Done::Written(result, self.free_space_after(&write))
            }
            Request::Prepare(prepare) => {
                let result = self.prepare(&prepare);
                Done::Prepared(prepare, result, self.free_space())
            }
            Request::Delete(file) => Done::Deleted(self.delete(file)),
            Request::Measure => Done::Measured(self.free_space()),
            Request::Read(read) => Done::Read(read.id, self.read(read)),
            Request::ReadSegment(read) => Done::SegmentRead(self.read_segment(read)),
        })
    }

    /// The disk it works on.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    fn write(&self, write: &Write) -> Result<(), DiskFailure> {
        let file = write.file;
        if let Some(room) = write.create {
            create(&self.disk, file, room)?;
        }
        let parts: Vec<IoSlice<'_>> = write.parts.iter().map(|part| IoSlice::new(part)).collect();
        let failed = |operation| move |error| DiskFailure::new(operation, file, &error);
        if write.sync {
            self.disk.append(file, write.offset, &parts).map_err(failed(DiskOperation::Write))?;
            self.disk.sync_data(file).map_err(failed(DiskOperation::Sync))?;
        } else {
            self.disk.write_at(file, write.offset, &parts).map_err(failed(DiskOperation::Write))?;
        }
        Ok(())
    }

    fn prepare(&self, prepare: &Prepare) -> Result<(), DiskFailure> {
        if let Some(room) = prepare.create {
            create(&self.disk, prepare.file, room)?;
        }
        write_zeros(&self.disk, prepare.file, prepare.offset, prepare.length)
    }

    fn delete(&self, file: FileId) -> Result<(), DiskFailure> {
        self.disk.delete(file).map_err(|error| DiskFailure::new(DiskOperation::Delete, file, &error))
    }

    /// As much of the window as the file has.
    fn read(&self, read: WindowRead) -> io::Result<Bytes> {
        let length = usize::try_from(read.length).unwrap_or(usize::MAX);
        self.disk.read_piece(read.file, read.offset, length).map(Into::into)
    }

    /// The same of a segment that is read in order.
    fn read_segment(&self, read: SegmentRead) -> io::Result<Bytes> {
        let mut buffer = vec![0; usize::try_from(read.length).unwrap_or(usize::MAX)];
        let bytes = self.disk.read_at(read.file, read.offset, &mut buffer)?;
        buffer.truncate(bytes);
        Ok(buffer.into())
    }

    fn free_space_after(&mut self, write: &Write) -> Option<u64> {
        self.unmeasured += 1;
        let bytes: u64 = write.parts.iter().map(|part| part.len() as u64).sum();
        if self.unmeasured < WRITES_PER_MEASURE && bytes < LARGE_WRITE && write.create.is_none() {
            return None;
        }
        self.unmeasured = 0;
        self.free_space()
    }

    fn free_space(&self) -> Option<u64> {
        self.disk.free_space().ok()
    }
}

/// Writes one piece while a journal is opened or repaired.
pub(crate) fn write_now(
    disk: &dyn Disk,
    file: FileId,
    offset: u64,
    bytes: &[u8],
) -> Result<(), RecoveryError> {
    disk.write_at(file, offset, &[IoSlice::new(bytes)])
        .map_err(|error| RecoveryError::disk("writing", Some(file), &error))
}

/// The same for a sync.
pub(crate) fn sync_now(disk: &dyn Disk, file: FileId) -> Result<(), RecoveryError> {
    disk.sync_data(file).map_err(|error| RecoveryError::disk("syncing", Some(file), &error))
}

/// Creates a file so that it is there after a crash.
pub(crate) fn create(disk: &dyn Disk, file: FileId, room: u64) -> Result<(), DiskFailure> {
    let failed = |error| DiskFailure::new(DiskOperation::Create, file, &error);
    disk.create(file, room).map_err(failed)?;
    disk.sync_dir().map_err(failed)
}

/// Writes zeros, behind a spare header when they begin the file, and syncs them.
pub(crate) fn write_zeros(
    disk: &dyn Disk,
    file: FileId,
    offset: u64,
    length: u64,
) -> Result<(), DiskFailure> {
    let failed = |error| DiskFailure::new(DiskOperation::Prepare, file, &error);
    let header = format::spare_header();
    let header = if offset == 0 { &header[..] } else { &[] };
    let mut rest = usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(header.len());
    let mut parts = vec![IoSlice::new(header)];
    while rest > 0 {
        let part = ZEROS.get(..rest.min(ZEROS.len())).unwrap_or(&ZEROS);
        parts.push(IoSlice::new(part));
        rest -= part.len();
    }
    disk.write_at(file, offset, &parts).map_err(failed)?;
    disk.sync_data(file).map_err(failed)
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[cfg(test)]
mod tests;
