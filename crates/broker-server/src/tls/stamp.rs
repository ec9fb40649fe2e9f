//! Notices that a file has changed.
//!
//! Invariant: a check opens no file: its cost does not depend on the content.

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

/// Attributes of some files at one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Stamps([Option<Stamp>; 3]);

/// Attributes that tell one state of a file from another: a file that is written anew has another time or size, and one that is put
/// in its place, also through a symbolic link, is another file.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Stamps {
    /// As they are now. A file that is not there has no stamp.
    pub(super) fn of(files: [Option<&PathBuf>; 3]) -> Self {
        Self(files.map(|file| file.and_then(stamp)))
    }
}

fn stamp(path: &PathBuf) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    })
}
