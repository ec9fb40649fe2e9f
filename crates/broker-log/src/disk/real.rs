//! Disk over a directory of the operating system.
//!
//! Invariant: at most one process has it open; a lock file sees to that, and ends with the process. The folder and the
//! files that are made here can be read by their owner only.

use std::{
    cell::Cell,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, IoSlice, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    buffer::spare_capacity,
    fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, statvfs},
    io::{Errno, ReadWriteFlags},
};

use super::{Disk, direct::Direct, exposure::Exposure, open_files::OpenFiles};
use crate::FileId;

/// A journal's directory. Clones share the lock and the open files.
#[derive(Clone, Debug)]
pub struct RealDisk {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    files: Mutex<OpenFiles>,
    /// For pieces: without the read-ahead of the operating system.
    pieces: Mutex<OpenFiles>,
    /// Large writes through the page cache need not stay there, as far as is known.
    past_cache: AtomicBool,
    /// Writes what is synced at once past the page cache.
    direct: Mutex<Direct>,
    /// Held, never read: the lock ends when it is dropped.
    _lock: File,
}

/// Reason why a journal's directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("`{}` is in use by another process", directory.display())]
    InUse { directory: PathBuf },
    /// A migration of its journal was interrupted.
    #[error("the migration of the journal in `{}` was interrupted: `ferrybus journal migrate` ends it", directory.display())]
    Migration { directory: PathBuf },
    #[error("`{}` cannot be opened", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl RealDisk {
    /// Opens `directory`, creating it where it is missing, and locks it.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let disk = Self::open_in_migration(directory)?;
        let directory = disk.directory();
        if has_interrupted_migration(directory) {
            return Err(OpenError::Migration { directory: directory.to_path_buf() });
        }
        Ok(disk)
    }

    /// The same for the migration itself.
    pub(crate) fn open_in_migration(directory: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let directory = directory.into();
        create_folders(&directory, &mut sync_folder)
            .map_err(|source| OpenError::Io { path: directory.clone(), source })?;
        let path = directory.join(LOCK_FILE);
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .mode(FILE_MODE)
            .truncate(false)
            .open(&path)
            .map_err(|source| OpenError::Io { path: path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse { directory }),
            Err(TryLockError::Error(source)) => return Err(OpenError::Io { path, source }),
        }
        Ok(Self {
            inner: Arc::new(Inner {
                directory,
                files: Mutex::default(),
                pieces: Mutex::default(),
                past_cache: AtomicBool::new(true),
                direct: Mutex::default(),
                _lock: lock,
            }),
        })
    }

    /// Parts of the directory that others than its owner have access to. It holds messages and the keys of entities.
    pub fn exposure(&self) -> io::Result<Exposure> {
        Exposure::of(&self.inner.directory)
    }

    /// Path of the directory.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    fn path(&self, file: FileId) -> PathBuf {
        self.inner.directory.join(file.to_string())
    }

    fn files(&self) -> MutexGuard<'_, OpenFiles> {
        // They are whole after every statement that changes them.
        self.inner.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pieces(&self) -> MutexGuard<'_, OpenFiles> {
        self.inner.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn direct(&self) -> MutexGuard<'_, Direct> {
        // After a panic in it, it begins anew.
        self.inner.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, file: FileId) -> io::Result<Arc<File>> {
        self.files().get(file, || OpenOptions::new().read(true).write(true).open(self.path(file)))
    }

    /// A handle whose reads bring in nothing else.
    fn piece_of(&self, file: FileId) -> io::Result<Arc<File>> {
        self.pieces().get(file, || {
            let open = File::open(self.path(file))?;
            // A file system that knows no advice reads ahead, and that is all.
            fadvise(&open, 0, None, Advice::Random).ok();
            Ok(open)
        })
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<(FileId, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.inner.directory)? {
            let entry = entry?;
            if let Some(file) = entry.file_name().to_str().and_then(parse_name) {
                files.push((file, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn create(&self, file: FileId, reserve: u64) -> io::Result<()> {
        self.direct().forget(file);
        let path = self.path(file);
        let open = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(&path)?;
        // The length stays 0: it tells how far the file has been written ahead.
        if let Err(error) = fallocate(&open, FallocateFlags::KEEP_SIZE, 0, reserve).map_err(io::Error::from)
            && !is_unknown(&error)
        {
            // Otherwise each start on a full disk leaves one more empty file behind. Where it cannot be unlinked either, the
            // first error is the one that says why.
            drop(fs::remove_file(&path));
            return Err(error);
        }
        self.files().keep(file, Arc::new(open));
        Ok(())
    }

    fn write_at(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.direct().forget(file);
        let open = self.file(file)?;
        if let [only] = parts {
            return open.write_all_at(only, offset);
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes >= DONTCACHE_BYTES_MIN && self.inner.past_cache.load(Ordering::Relaxed) {
            match write_vectored_at(&open, offset, parts, DONTCACHE) {
                // An older kernel, or a file system that does not know how.
                Err(error) if is_unknown(&error) => {
                    self.inner.past_cache.store(false, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        write_vectored_at(&open, offset, parts, ReadWriteFlags::empty())
    }

    fn append(&self, file: FileId, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let refused = Cell::new(false);
        let open = || {
            let flags = OFlags::DIRECT.bits().cast_signed();
            let opened = OpenOptions::new().write(true).custom_flags(flags).open(self.path(file));
            opened.inspect_err(|_| refused.set(true))
        };
        let read = |offset, block: &mut [u8]| self.read_at(file, offset, block);
        let mut direct = self.direct();
        match direct.append(file, offset, parts, open, read) {
            Err(error) if is_unknown(&error) => direct.disable(),
            // The file that is open already does as well: the process may have no descriptor left for another.
            Err(_) if refused.get() => {}
            done => return done,
        }
        drop(direct);
        self.write_at(file, offset, parts)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_fully_at(&*self.file(file)?, offset, buffer)
    }

    /// The memory is not filled with zeros first: a piece may have megabytes.
    fn read_piece(&self, file: FileId, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(length);
        let file = self.piece_of(file)?;
        while piece.len() < length {
            let at = offset + piece.len() as u64;
            match rustix::io::pread(&*file, spare_capacity(&mut piece), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The memory may be larger than what was asked for.
        piece.truncate(length);
        Ok(piece)
    }

    fn sync_data(&self, file: FileId) -> io::Result<()> {
        self.file(file)?.sync_data()
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.inner.directory)?.sync_all()
    }

    fn delete(&self, file: FileId) -> io::Result<()> {
        self.direct().forget(file);
        self.files().remove(file);
        self.pieces().remove(file);
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn set_aside(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.inner.directory.join(name);
        let mut kept = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        kept.write_all(bytes)?;
        kept.sync_all()?;
        self.sync_dir()
    }

    fn free_space(&self) -> io::Result<u64> {
        let space = statvfs(&self.inner.directory)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

/// Creates a folder, and those above it that are missing, so that they are there after a crash.
fn create_folders(directory: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let missing: Vec<&Path> = directory
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(directory)?;
    for folder in missing.into_iter().rev() {
        match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync(parent)?,
            _ => sync(Path::new("."))?,
        }
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn parse_name(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(".segment")?;
    let file = FileId(digits.parse().ok()?);
    // One name for one number: `1.segment` is not ours.
    (file.to_string() == name).then_some(file)
}

/// Reads until `buffer` is full or the file ends; says how many bytes there were.
fn read_fully_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Whether kernel or file system do not know how to do something.
fn is_unknown(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// `pwritev2` until everything is written.
pub(super) fn write_vectored_at(
    file: &File,
    mut offset: u64,
    parts: &[IoSlice<'_>],
    flags: ReadWriteFlags,
) -> io::Result<()> {
    for parts in parts.chunks(PARTS_MAX) {
        let mut parts = parts.to_vec();
        let mut rest = &mut parts[..];
        while !rest.is_empty() {
            match rustix::io::pwritev2(file, rest, offset, flags) {
                Ok(0) if rest.iter().all(|part| part.is_empty()) => break,
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut rest, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// `RWF_DONTCACHE` (Linux 6.14), for large writes that are not appended past the page cache: what is written leaves it when it
/// is on disk. Recent records are in our own cache, and under a load that writes so much at once fresh pages for all of it
/// cost more than the disk does.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Writes of so many bytes go past the page cache. A smaller one shares its last page with the next.
const DONTCACHE_BYTES_MIN: usize = 256 << 10;
/// Permissions of what is made here.
pub(crate) const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
pub(crate) const LOCK_FILE: &str = "lock";

/// Folder of the migrated journal, complete, while the old one moves out of its place.
pub(crate) const MIGRATED: &str = "migrated";
/// Folder of the migrated journal while it moves into the place of the old one.
pub(crate) const INSTALLING: &str = "migrated-installing";
/// Folder of the journal that was migrated.
pub(crate) const OLD_JOURNAL: &str = "format-1";

/// Whether a migration of the folder was begun, and has to be ended before its journal is opened.
fn has_interrupted_migration(directory: &Path) -> bool {
    [MIGRATED, INSTALLING].iter().any(|name| directory.join(name).exists())
}
/// Linux takes this many parts in one call (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

#[cfg(test)]
mod tests;
