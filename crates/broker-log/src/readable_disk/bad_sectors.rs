//! Disk in memory with blocks that cannot be read until they are written as a whole, for tests.
//!
//! Invariant: a part of such a block is neither read nor written.

use std::{
    collections::BTreeSet,
    io::{self, IoSlice},
    sync::{Arc, Mutex},
};

use crate::{Disk, FileId, MemDisk, disk::BLOCK_BYTES};

#[derive(Clone, Debug, Default)]
pub(crate) struct BadSectors {
    pub disk: MemDisk,
    bad: Arc<Mutex<BTreeSet<(FileId, u64)>>>,
}

const BLOCK: u64 = BLOCK_BYTES as u64;

impl BadSectors {
    pub(crate) fn new(disk: MemDisk) -> Self {
        Self { disk, bad: Arc::default() }
    }

    /// The block with this number cannot be read any more.
    pub(crate) fn spoil(&self, file: FileId, block: u64) {
        self.bad.lock().unwrap().insert((file, block));
    }

    pub(crate) fn count_bad(&self) -> usize {
        self.bad.lock().unwrap().len()
    }

    fn fails(&self, file: FileId, from: u64, to: u64) -> io::Result<()> {
        let bad = self.bad.lock().unwrap();
        let fails =
            bad.iter().any(|(one, block)| *one == file && block * BLOCK < to && from < (block + 1) * BLOCK);
        // `EIO`
        if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Disk for BadSectors {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        self.disk.list()
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        self.disk.create(file, reserve)
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let end = offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let is_whole = |block: u64| offset <= block * BLOCK && (block + 1) * BLOCK <= end;
        self.bad.lock().unwrap().retain(|(one, block)| *one != file || !is_whole(*block));
        self.fails(file, offset, end)?;
        self.disk.write_at(file, offset, parts)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.fails(file, offset, offset + buffer.len() as u64)?;
        self.disk.read_at(file, offset, buffer)
    }

    fn sync_data(&self, file: FileId) -> io::Result<()> {
        self.disk.sync_data(file)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn delete(&self, file: FileId) -> io::Result<()> {
        self.disk.delete(file)
    }

    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.disk.set_aside(name, bytes)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }
}
