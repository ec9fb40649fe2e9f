//! Migration of the folder of a journal of ferrybus 0.1.0.
//!
//! Each step is one operation of the file system, and the next step follows from the names in the folder alone. So a
//! migration that was interrupted anywhere goes on when it is begun again.
//!
//! Invariant: until the new journal is complete and durable, the old one is untouched; from then on every file of both is
//! there under one name or another.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use crate::{
    JournalConfig, OpenError, RealDisk,
    disk::{FOLDER_MODE, INSTALLING, LOCK_FILE, MIGRATED as COMPLETE, OLD_JOURNAL as OLD},
};

use super::{ConvertIndex, MigrateError, Migrated, migrate};

/// The new journal while it is written.
const UNFINISHED: &str = "migrating";

/// Result of [`migrate_folder`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MigratedFolder {
    /// The copied records; `None`: an earlier run that was interrupted had done it.
    pub copied: Option<Migrated>,
    /// Present folder of the old journal. Nothing needs it any more.
    pub old: PathBuf,
}

/// The folder was not migrated to the end. Begin the migration again when the reason is mended.
#[derive(Debug, thiserror::Error)]
pub enum MigrateFolderError<E> {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Migrate(#[from] MigrateError<E>),
    #[error("{action} `{}`", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
}

/// Replaces the journal of ferrybus 0.1.0 in `directory` by one of the present format, and moves the old one into a folder
/// below. See [`migrate()`] for `convert`. Afterwards both are there, so the disk needs room for both.
pub fn migrate_folder<E>(
    directory: &Path,
    config: JournalConfig,
    convert: ConvertIndex<'_, E>,
) -> Result<MigratedFolder, MigrateFolderError<E>> {
    let disk = RealDisk::open_in_migration(directory)?;
    let mut migration = FolderMigration { directory, disk, config, copied: None };
    while migration.step(convert)? {}
    Ok(MigratedFolder { copied: migration.copied, old: directory.join(OLD) })
}

struct FolderMigration<'a> {
    directory: &'a Path,
    /// The old journal, locked.
    disk: RealDisk,
    config: JournalConfig,
    copied: Option<Migrated>,
}

impl FolderMigration<'_> {
    /// One step. False: there is nothing left to do.
    fn step<E>(&mut self, convert: ConvertIndex<'_, E>) -> Result<bool, MigrateFolderError<E>> {
        let (complete, installing) = (self.directory.join(COMPLETE), self.directory.join(INSTALLING));
        if installing.exists() {
            return self.install(&installing);
        }
        if !complete.exists() {
            self.copy(&complete, convert)?;
            return Ok(true);
        }
        match first_segment(self.directory)? {
            Some(name) => self.set_aside(&name)?,
            None => rename(&complete, &installing)?,
        }
        Ok(true)
    }

    /// Writes the new journal beside the old one.
    fn copy<E>(
        &mut self,
        complete: &Path,
        convert: ConvertIndex<'_, E>,
    ) -> Result<(), MigrateFolderError<E>> {
        let unfinished = self.directory.join(UNFINISHED);
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(failed("removing", &unfinished))?;
        }
        let new = RealDisk::open(&unfinished)?;
        let copied = migrate(&self.disk, new.clone(), self.config, convert)?;
        let lock = unfinished.join(LOCK_FILE);
        drop(new);
        fs::remove_file(&lock).map_err(failed("removing", &lock))?;
        sync(&unfinished)?;
        rename(&unfinished, complete)?;
        self.copied = Some(copied);
        Ok(())
    }

    /// Moves a file of the old journal out.
    fn set_aside<E>(&self, name: &str) -> Result<(), MigrateFolderError<E>> {
        let old = self.directory.join(OLD);
        if !old.exists() {
            DirBuilder::new().mode(FOLDER_MODE).create(&old).map_err(failed("creating", &old))?;
        }
        rename(&self.directory.join(name), &old.join(name))
    }

    /// Moves a file of the new journal in. False: all are there.
    fn install<E>(&self, installing: &Path) -> Result<bool, MigrateFolderError<E>> {
        if let Some(name) = first_segment(installing)? {
            rename(&installing.join(&name), &self.directory.join(name))?;
            return Ok(true);
        }
        fs::remove_dir(installing).map_err(failed("removing", installing))?;
        sync(self.directory)?;
        Ok(false)
    }
}

/// Renames a file or folder durably, and never over one that exists.
fn rename<E>(from: &Path, to: &Path) -> Result<(), MigrateFolderError<E>> {
    if to.exists() {
        return Err(failed("moving a file over", to)(io::ErrorKind::AlreadyExists.into()));
    }
    fs::rename(from, to).map_err(failed("moving", from))?;
    for folder in [from.parent(), to.parent()].into_iter().flatten() {
        sync(folder)?;
    }
    Ok(())
}

/// The name of a segment file in the folder, the lowest one.
fn first_segment<E>(folder: &Path) -> Result<Option<String>, MigrateFolderError<E>> {
    let entries = fs::read_dir(folder).map_err(failed("reading", folder))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(|name| name.ends_with(".segment")).min())
}

fn sync<E>(folder: &Path) -> Result<(), MigrateFolderError<E>> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("syncing", folder))
}

fn failed<E>(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MigrateFolderError<E> {
    let path = path.to_path_buf();
    move |source| MigrateFolderError::File { action, path, source }
}

#[cfg(test)]
mod tests;
