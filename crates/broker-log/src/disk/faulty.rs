//! Fault-injecting disk that fails calls and loses power, for the simulator and for property tests.
//!
//! Invariant: what was synced survives [`FaultyDisk::crash`]; of what was not, any sector may survive and any
//! other be lost, as [`Faults`] decides. The same decisions give the same disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{BLOCK_BYTES, Disk, MemDisk};
use crate::FileId;

/// Call of the disk, for a decision whether it fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskCall {
    /// Listing the files.
    List,
    Create(FileId),
    Write(FileId),
    Read(FileId),
    SyncData(FileId),
    /// Syncing the directory.
    SyncDir,
    Delete(FileId),
    /// Keeping bytes aside.
    SetAside,
    /// Asking for free space.
    FreeSpace,
}

/// Decides what goes wrong. A simulator implements it with its seed.
pub trait Faults: Send {
    /// The error this call fails with; `None`: it succeeds.
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind>;
    /// In a crash: whether a sector that was written and not synced survives.
    fn sector_survives(&mut self) -> bool;
    /// In a crash: whether a file that was created or deleted, and the directory not synced, is as it was before
    /// (`false`) or as it was made (`true`).
    fn entry_survives(&mut self) -> bool {
        self.sector_survives()
    }
}

/// Bytes that reach the disk together or not at all.
const SECTOR_BYTES: usize = 512;

/// A disk in memory with faults. Clones share it.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyDisk").finish_non_exhaustive()
    }
}

struct State {
    /// Contents as a process sees them.
    seen: MemDisk,
    /// Contents that survive a power loss.
    durable: BTreeMap<FileId, Vec<u8>>,
    /// Sectors written since the file's last sync.
    dirty: BTreeMap<FileId, BTreeSet<usize>>,
    /// Files created (true) or deleted (false) since the directory's last sync.
    entries: BTreeMap<FileId, bool>,
    faults: Box<dyn Faults>,
}

impl FaultyDisk {
    /// An empty disk.
    pub fn new(faults: impl Faults + 'static) -> Self {
        let state = State {
            seen: MemDisk::new(),
            durable: BTreeMap::new(),
            dirty: BTreeMap::new(),
            entries: BTreeMap::new(),
            faults: Box::new(faults),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Power is lost and comes back: what a process sees afterwards is what had reached the platter.
    pub fn crash(&self) {
        let state = &mut *self.state();
        for (file, created) in std::mem::take(&mut state.entries) {
            let survives = state.faults.entry_survives();
            if created && !survives {
                state.durable.remove(&file);
                state.dirty.remove(&file);
            } else if created {
                state.durable.entry(file).or_default();
            } else if survives {
                state.durable.remove(&file);
            }
        }
        let dirty: Vec<FileId> = state.dirty.keys().copied().collect();
        for file in dirty {
            state.flush(file, false);
        }
        state.seen = MemDisk::new();
        for (file, contents) in &state.durable {
            state.seen.replace(*file, contents.clone());
        }
    }

    /// The files as a process sees them, to look at or to damage.
    pub fn seen(&self) -> MemDisk {
        self.state().seen.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking test is over anyway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, call: DiskCall) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        match state.faults.fails(call) {
            Some(kind) => Err(kind.into()),
            None => Ok(state),
        }
    }
}

impl State {
    /// Takes the file's dirty sectors to the platter: all, or those that survive.
    fn flush(&mut self, file: FileId, all: bool) {
        let sectors = self.dirty.remove(&file).unwrap_or_default();
        let durable = self.durable.entry(file).or_default();
        let mut sector_bytes = [0; SECTOR_BYTES];
        for sector in sectors {
            if !all && !self.faults.sector_survives() {
                continue;
            }
            let start = sector * SECTOR_BYTES;
            let read = self.seen.read_at(file, start as u64, &mut sector_bytes).unwrap_or(0);
            copy_sector(sector_bytes.get(..read).unwrap_or_default(), durable, start);
        }
    }
}

/// Copies one sector to its place; the file grows with zeros up to it, as a file with a hole does.
fn copy_sector(from: &[u8], to: &mut Vec<u8>, start: usize) {
    let end = start + from.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    if let Some(to) = to.get_mut(start..end) {
        to.copy_from_slice(from);
    }
}

impl Disk for FaultyDisk {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        self.call(DiskCall::List)?.seen.list()
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        let mut state = self.call(DiskCall::Create(file))?;
        state.seen.create(file, reserve)?;
        state.entries.insert(file, true);
        Ok(())
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut state = self.state();
        let failure = state.faults.fails(DiskCall::Write(file));
        // A failed write may have written everything, something or nothing: it is dirty either way.
        state.seen.write_at(file, offset, parts)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let sectors = start / SECTOR_BYTES..(start + length).div_ceil(SECTOR_BYTES);
        state.dirty.entry(file).or_default().extend(sectors);
        failure.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn append(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        // As the real disk does it: the last block is filled up with zeros.
        let end = parts.iter().fold(offset, |end, part| end + part.len() as u64);
        let missing = usize::try_from(end.wrapping_neg() % BLOCK_BYTES as u64).unwrap_or_default();
        let zeros = vec![0; missing];
        self.write_at(file, offset, &[parts, &[IoSlice::new(&zeros)]].concat())
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(DiskCall::Read(file))?.seen.read_at(file, offset, buffer)
    }

    fn sync_data(&self, file: FileId) -> io::Result<()> {
        let state = &mut *self.state();
        if let Some(kind) = state.faults.fails(DiskCall::SyncData(file)) {
            // As Linux does it: the pages count as clean now, even if they did not reach the disk.
            state.flush(file, false);
            return Err(kind.into());
        }
        state.flush(file, true);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.call(DiskCall::SyncDir)?;
        for (file, created) in std::mem::take(&mut state.entries) {
            if created {
                state.durable.entry(file).or_default();
            } else {
                state.durable.remove(&file);
            }
        }
        Ok(())
    }

    fn delete(&self, file: FileId) -> io::Result<()> {
        let mut state = self.call(DiskCall::Delete(file))?;
        state.seen.delete(file)?;
        state.dirty.remove(&file);
        state.entries.insert(file, false);
        Ok(())
    }

    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.call(DiskCall::SetAside)?.seen.set_aside(name, bytes)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.call(DiskCall::FreeSpace)?.seen.free_space()
    }
}

#[cfg(test)]
mod tests;
