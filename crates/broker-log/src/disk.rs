//! Disk interface of the journal.
//!
//! Invariant: nothing else in this crate touches a file, but the migration of a folder, which moves whole files.

mod direct;
mod exposure;
mod faulty;
mod memory;
mod open_files;
mod real;

use std::{fmt, io, io::IoSlice, sync::Arc};

pub use exposure::Exposure;
pub use faulty::{DiskCall, Faults, FaultyDisk};
pub use memory::MemDisk;
pub(crate) use real::{FOLDER_MODE, INSTALLING, LOCK_FILE, MIGRATED, OLD_JOURNAL};
pub use real::{OpenError, RealDisk};

use crate::FileId;

/// A directory of segment files. Handles are shared: the front reads while the disk thread writes.
///
/// A write is durable after [`Disk::sync_data`] of its file returned without error, a created or deleted file
/// after [`Disk::sync_dir`]. Before that a crash may keep any of its sectors (512 bytes) and lose any other.
pub trait Disk: fmt::Debug + Send + Sync {
    /// The segment files and their lengths in bytes, in any order.
    fn list(&self) -> io::Result<Vec<(FileId, u64)>>;
    /// Creates an empty file that must not exist yet, with room for `reserve` bytes set aside where the file system can do that.
    /// Without enough space no file is left behind.
    fn create(&self, file: FileId, reserve: u64) -> io::Result<()>;
    /// Writes all `parts`, one behind the other, from `offset` on. Extends the file where needed.
    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()>;
    /// Writes all `parts`, one behind the other, from `offset` on, where nothing is of use behind them: the file may have zeros
    /// from there to the next multiple of [`BLOCK_BYTES`] afterwards. To be followed by [`Disk::sync_data`].
    fn append(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.write_at(file, offset, parts)
    }
    /// Reads from `offset` until `buffer` is full or the file ends; says how many bytes there were.
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Reads `length` bytes from `offset` on, fewer where the file ends. The operating system need read nothing beyond them.
    fn read_piece(&self, file: FileId, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; length];
        let bytes = self.read_at(file, offset, &mut piece)?;
        piece.truncate(bytes);
        Ok(piece)
    }
    /// Makes the file's contents durable, and of its metadata what reading them needs.
    fn sync_data(&self, file: FileId) -> io::Result<()>;
    /// Makes created and deleted files durable.
    fn sync_dir(&self) -> io::Result<()>;
    /// Deletes a file. A file that does not exist is no error.
    fn delete(&self, file: FileId) -> io::Result<()>;
    /// Keeps `bytes` under `name` beside the segments, durably. For what a repair cuts off.
    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Free space in bytes.
    fn free_space(&self) -> io::Result<u64>;
}

/// Size of a disk block in bytes.
pub(crate) const BLOCK_BYTES: usize = 4 << 10;

impl<D: Disk + ?Sized> Disk for Arc<D> {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        (**self).list()
    }
    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        (**self).create(file, reserve)
    }
    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (**self).write_at(file, offset, parts)
    }
    fn append(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (**self).append(file, offset, parts)
    }
    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(file, offset, buffer)
    }
    fn read_piece(&self, file: FileId, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        (**self).read_piece(file, offset, length)
    }
    fn sync_data(&self, file: FileId) -> io::Result<()> {
        (**self).sync_data(file)
    }
    fn sync_dir(&self) -> io::Result<()> {
        (**self).sync_dir()
    }
    fn delete(&self, file: FileId) -> io::Result<()> {
        (**self).delete(file)
    }
    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        (**self).set_aside(name, bytes)
    }
    fn free_space(&self) -> io::Result<u64> {
        (**self).free_space()
    }
}
