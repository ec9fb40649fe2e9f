//! Permission check: access of others than the owner to a journal's directory.
//!
//! Invariant: it looks and changes nothing: an operator may have reasons, such as a group that makes backups.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The access that group and others have. Empty (the default) where only the owner has any.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exposure {
    /// Permission bits of the folder, where they let others in.
    pub folder: Option<u32>,
    /// Number of files in it whose permission bits let others read or write.
    pub files: u64,
    /// The first of them by name, with its permission bits.
    pub first_file: Option<(PathBuf, u32)>,
}

impl Exposure {
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let mut found = Self { folder: open_bits(&fs::metadata(directory)?), ..Self::default() };
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) if metadata.is_file() => metadata,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let Some(mode) = open_bits(&metadata) else { continue };
            found.files += 1;
            let path = entry.path();
            if found.first_file.as_ref().is_none_or(|(first, _)| path < *first) {
                found.first_file = Some((path, mode));
            }
        }
        Ok(found)
    }
}

/// The permission bits, where group or others have any.
fn open_bits(metadata: &fs::Metadata) -> Option<u32> {
    let mode = metadata.permissions().mode() & 0o777;
    (mode & OTHERS != 0).then_some(mode)
}

/// Every permission of group and others.
const OTHERS: u32 = 0o077;
