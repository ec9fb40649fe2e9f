//! In-memory disk for tests; clones share the same files.
//!
//! Invariant: behaves as a disk that never fails and never loses power.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Disk;
use crate::FileId;

/// Files in memory.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    files: Arc<Mutex<Files>>,
}

#[derive(Debug, Default)]
struct Files {
    segments: BTreeMap<FileId, Vec<u8>>,
    aside: BTreeMap<String, Vec<u8>>,
    capacity: Option<u64>,
}

impl MemDisk {
    /// An empty disk without end.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the disk an end, in bytes; what exceeds it already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.files().capacity = Some(bytes);
    }

    /// A copy of a file's contents; `None` when there is no such file.
    pub fn contents(&self, file: FileId) -> Option<Vec<u8>> {
        self.files().segments.get(&file).cloned()
    }

    /// Replaces a file's contents, for tests that do damage.
    pub fn replace(&self, file: FileId, contents: Vec<u8>) {
        self.files().segments.insert(file, contents);
    }

    /// Bytes set aside under `name`.
    pub fn aside(&self, name: &str) -> Option<Vec<u8>> {
        self.files().aside.get(name).cloned()
    }

    /// A disk with the same contents that goes its own way.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let files = self.files();
        let (segments, aside) = (files.segments.clone(), files.aside.clone());
        Self { files: Arc::new(Mutex::new(Files { segments, aside, capacity: files.capacity })) }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        // The maps are whole after every statement that changes them.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn used(&self) -> u64 {
        self.segments.values().chain(self.aside.values()).map(|file| file.len() as u64).sum()
    }

    fn has_room_for(&self, more: u64) -> io::Result<()> {
        let full = self.capacity.is_some_and(|capacity| self.used().saturating_add(more) > capacity);
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for MemDisk {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        Ok(self.files().segments.iter().map(|(file, bytes)| (*file, bytes.len() as u64)).collect())
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        let mut files = self.files();
        files.has_room_for(reserve)?;
        if files.segments.contains_key(&file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.segments.insert(file, Vec::new());
        Ok(())
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut files = self.files();
        let length = files.segments.get(&file).ok_or(io::ErrorKind::NotFound)?.len();
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start + parts.iter().map(|part| part.len()).sum::<usize>();
        if end > length {
            files.has_room_for((end - length) as u64)?;
        }
        let contents = files.segments.get_mut(&file).ok_or(io::ErrorKind::NotFound)?;
        if contents.len() < end {
            contents.resize(end, 0);
        }
        let mut at = start;
        for part in parts {
            if let Some(place) = contents.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        }
        Ok(())
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let files = self.files();
        let contents = files.segments.get(&file).ok_or(io::ErrorKind::NotFound)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(there) = contents.get(start..) else { return Ok(0) };
        let read = there.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..read), there.get(..read)) {
            to.copy_from_slice(from);
        }
        Ok(read)
    }

    fn sync_data(&self, _file: FileId) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn delete(&self, file: FileId) -> io::Result<()> {
        self.files().segments.remove(&file);
        Ok(())
    }

    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files();
        if files.aside.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.aside.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        let files = self.files();
        Ok(files.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(files.used())))
    }
}

#[cfg(test)]
mod tests;
