//! A disk that keeps a digest of everything that is asked of it to write.
//!
//! Invariant: two runs whose journals write the same bytes to the same positions in the same order have the same
//! digest, so a change of the code that must not change the disk format can be compared over thousands of seeds.

use std::{
    fmt,
    io::{self, IoSlice},
    sync::{Arc, Mutex, PoisonError},
};

use broker_log::{Disk, FaultyDisk, FileId};

use crate::{digest::Digest, disk::DiskFaults};

/// A [`FaultyDisk`] and the digest of its writes. Clones share both.
#[derive(Clone)]
pub(crate) struct TracedDisk {
    disk: FaultyDisk,
    digest: Arc<Mutex<Digest>>,
}

impl fmt::Debug for TracedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracedDisk").finish_non_exhaustive()
    }
}

impl TracedDisk {
    /// An empty disk whose faults are those of `disk_faults`.
    pub(crate) fn new(disk_faults: DiskFaults) -> Self {
        Self { disk: FaultyDisk::new(disk_faults), digest: Arc::default() }
    }

    /// An empty disk beside this one; both have one digest.
    pub(crate) fn beside(&self, disk_faults: DiskFaults) -> Self {
        Self { disk: FaultyDisk::new(disk_faults), digest: Arc::clone(&self.digest) }
    }

    /// An empty disk in the entity of this one; the digest goes on.
    pub(crate) fn replace(&mut self, disk_faults: DiskFaults) {
        self.disk = FaultyDisk::new(disk_faults);
    }

    /// Power is lost and comes back.
    pub(crate) fn crash(&self) {
        self.disk.crash();
    }

    /// The digest of all calls that change the disk, in their order.
    pub(crate) fn digest(&self) -> Digest {
        *self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the work that the next round may do, on which all that it writes depends.
    pub(crate) fn note_budget(&self, work: u64) {
        self.note("budget", None, work, &[]);
    }

    fn note(&self, call: &str, file: Option<FileId>, offset: u64, parts: &[IoSlice<'_>]) {
        // The digest is whole after every call: a panic elsewhere leaves nothing half done.
        let mut digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        digest.add(call.as_bytes());
        digest.add(&file.map_or(u32::MAX, |file| file.0).to_le_bytes());
        digest.add(&offset.to_le_bytes());
        for part in parts {
            digest.add(part);
        }
    }
}

impl Disk for TracedDisk {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        self.disk.list()
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        self.note("create", Some(file), reserve, &[]);
        self.disk.create(file, reserve)
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.note("write", Some(file), offset, parts);
        self.disk.write_at(file, offset, parts)
    }

    fn append(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.note("append", Some(file), offset, parts);
        self.disk.append(file, offset, parts)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, buffer)
    }

    fn sync_data(&self, file: FileId) -> io::Result<()> {
        self.note("sync", Some(file), 0, &[]);
        self.disk.sync_data(file)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.note("sync directory", None, 0, &[]);
        self.disk.sync_dir()
    }

    fn delete(&self, file: FileId) -> io::Result<()> {
        self.note("delete", Some(file), 0, &[]);
        self.disk.delete(file)
    }

    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.note(name, None, 0, &[IoSlice::new(bytes)]);
        self.disk.set_aside(name, bytes)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}
