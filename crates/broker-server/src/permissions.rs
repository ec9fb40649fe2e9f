//! Warns at start of files with secrets that other users than their owner can read.
//!
//! Invariant: it only warns: the operator decides who may read the files.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use broker_log::RealDisk;
use tracing::warn;

/// The journal has every message and the keys of entities in it.
pub(crate) fn warn_of_open_journal(disk: &RealDisk) {
    let directory = disk.directory().display();
    let found = match disk.exposure() {
        Ok(found) => found,
        Err(error) => return warn!(%directory, %error, "cannot look at the permissions of the journal"),
    };
    if let Some(mode) = found.folder {
        warn!(
            %directory,
            mode = %format_args!("{mode:04o}"),
            "other users of this machine have access to the journal's folder: `chmod 700` it"
        );
    }
    if let Some((first, mode)) = found.first_file {
        warn!(
            files = found.files,
            first = %first.display(),
            mode = %format_args!("{mode:04o}"),
            "other users of this machine have access to files of the journal: `chmod 600` them"
        );
    }
}

/// Warns of a private key that others can read: with it they can impersonate this broker.
pub(crate) fn warn_of_open_key(path: &Path) {
    // A file without metadata cannot be read either, which has an error of its own.
    let Ok(metadata) = fs::metadata(path) else { return };
    let mode = metadata.permissions().mode() & 0o777;
    if is_open_key(mode, metadata.uid()) {
        warn!(
            key = %path.display(),
            mode = %format_args!("{mode:04o}"),
            "other users of this machine can read the private key: `chmod 600` it"
        );
    }
}

/// A key of the administrator may be shared with a group, as Debian's `ssl-cert` is.
const fn is_open_key(mode: u32, owner: u32) -> bool {
    let readable_by = if owner == ROOT { 0o004 } else { 0o044 };
    mode & readable_by != 0
}

const ROOT: u32 = 0;

#[cfg(test)]
mod tests;
