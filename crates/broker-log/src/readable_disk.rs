//! Disk for check and repair: a block that cannot be read is as good as zeros.
//!
//! Invariant: what is read is what is on the disk, but in the blocks that it names as unreadable; such a block is written as a
//! whole, since the operating system would have to read the rest of it first.

use std::{
    collections::BTreeSet,
    io::{self, IoSlice},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{Disk, FileId, RecoveryError, disk::BLOCK_BYTES};

/// The disk below, as far as it can be read.
#[derive(Debug)]
pub(crate) struct ReadableDisk<'a> {
    disk: &'a dyn Disk,
    /// Blocks that cannot be read, with their offsets.
    unreadable: Mutex<BTreeSet<(FileId, u64)>>,
}

impl<'a> ReadableDisk<'a> {
    pub(crate) fn new(disk: &'a dyn Disk) -> Self {
        Self { disk, unreadable: Mutex::default() }
    }

    /// Offsets of the blocks that could not be read, in order.
    pub(crate) fn unreadable(&self) -> Vec<(FileId, u64)> {
        self.blocks().iter().copied().collect()
    }

    /// Writes zeros over the blocks that could not be read, so that they can be.
    pub(crate) fn rewrite_unreadable(&self) -> Result<(), RecoveryError> {
        for (file, offset) in self.unreadable() {
            let mut block = [0; BLOCK_BYTES];
            if self.disk.read_at(file, offset, &mut block).is_ok() {
                let error =
                    io::Error::other("a block that could not be read can be read now: check the disk");
                return Err(RecoveryError::read(file, offset, &error));
            }
            self.write_at(file, offset, &[IoSlice::new(&block)])
                .map_err(|error| RecoveryError::disk("writing", Some(file), &error))?;
            self.sync_data(file).map_err(|error| RecoveryError::disk("syncing", Some(file), &error))?;
        }
        Ok(())
    }

    fn blocks(&self) -> MutexGuard<'_, BTreeSet<(FileId, u64)>> {
        // The set is whole after every statement that changes it.
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads as much of a block as the buffer takes from `offset` on, which lies in it. Zeros where it cannot be read.
    fn read_in_block(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let block = (file, block_of(offset));
        if !self.blocks().contains(&block) {
            match self.disk.read_at(file, offset, buffer) {
                Err(error) if is_lost(&error) => {}
                done => return done,
            }
            self.blocks().insert(block);
        }
        buffer.fill(0);
        Ok(buffer.len())
    }
}

/// Offset of the block in which `offset` lies.
fn block_of(offset: u64) -> u64 {
    offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// Whether the disk has lost what it should read. Any other error says nothing of the disk: too many open files, for example.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(code) => LOST.contains(&code),
        // Of a disk in memory.
        None => error.kind() == io::ErrorKind::Other,
    }
}

/// `EIO`, and what file systems and disks say of a wrong checksum or a bad sector: `EBADMSG`, `EUCLEAN`, `ENODATA`, `EILSEQ`.
const LOST: [i32; 5] = [5, 74, 117, 61, 84];

impl Disk for ReadableDisk<'_> {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        self.disk.list()
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        self.disk.create(file, reserve)
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let (first, end) = (block_of(offset), offset.saturating_add(length));
        let touched: Vec<u64> = {
            let blocks = self.blocks();
            let touched = blocks.range((file, first)..(file, end.max(first + 1)));
            touched.map(|(_, block)| *block).collect()
        };
        if touched.is_empty() {
            return self.disk.write_at(file, offset, parts);
        }
        // Whole blocks, with what else is in them.
        let last = end.next_multiple_of(BLOCK_BYTES as u64);
        let mut whole = vec![0; usize::try_from(last - first).map_err(|_| io::ErrorKind::FileTooLarge)?];
        self.read_at(file, first, &mut whole)?;
        let place = usize::try_from(offset - first).unwrap_or_default();
        if let Some(place) = whole.get_mut(place..) {
            let bytes = parts.iter().flat_map(|part| part.iter());
            place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
        self.disk.write_at(file, first, &[IoSlice::new(&whole)])?;
        let mut blocks = self.blocks();
        for block in touched {
            blocks.remove(&(file, block));
        }
        Ok(())
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64);
        let is_known = self.blocks().range((file, block_of(offset))..(file, end)).next().is_some();
        if !is_known {
            match self.disk.read_at(file, offset, buffer) {
                Err(error) if is_lost(&error) => {}
                done => return done,
            }
        }
        // The file ends where it ended before: zeros are made up for what is in it alone.
        let length =
            self.disk.list()?.into_iter().find(|(one, _)| *one == file).map_or(0, |(_, length)| length);
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..) {
            let at = offset + done as u64;
            let reach = (block_of(at) + BLOCK_BYTES as u64).min(length).saturating_sub(at);
            let reach = usize::try_from(reach).unwrap_or(usize::MAX).min(rest.len());
            let Some(part) = rest.get_mut(..reach).filter(|part| !part.is_empty()) else { break };
            let read = self.read_in_block(file, at, part)?;
            done += read;
            if read < reach {
                break;
            }
        }
        Ok(done)
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

#[cfg(test)]
pub(crate) mod bad_sectors;
#[cfg(test)]
mod tests;
