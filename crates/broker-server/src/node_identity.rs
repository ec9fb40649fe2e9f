//! Identity of a node: a random number in the file `node` of its data folder, made at the first start.
//!
//! The marks of the journal repeat it, so that the journal of a copied folder says where it comes from.
//!
//! Invariant: an id that was returned once is in the file, durable; a file that is there is never replaced.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::randomness::RandomnessError;

/// The file with the id of the node cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot {action} `{}`: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// It was not written by this broker, or by a newer one.
    #[error(
        "`{}` is no file of a node's id: it should hold one line, `{FORM} ` and 16 hexadecimal digits",
        path.display()
    )]
    Malformed { path: PathBuf },
    /// The machine gives no random numbers.
    #[error(transparent)]
    Randomness(#[from] RandomnessError),
}

/// The id of the node that owns `folder`, between 1 and 2^63 - 1. A folder without one gets one from `random`.
pub(crate) fn load(
    folder: &Path,
    random: impl FnOnce() -> Result<[u8; 8], RandomnessError>,
) -> Result<u64, IdentityError> {
    let path = folder.join(FILE);
    match fs::read(&path) {
        Ok(text) => parse(&text).ok_or(IdentityError::Malformed { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = (u64::from_be_bytes(random()?) >> 1).max(1);
            write(folder, id)?;
            Ok(id)
        }
        Err(source) => Err(IdentityError::File { action: "read", path, source }),
    }
}

fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_suffix('\n')?.strip_prefix(FORM)?.strip_prefix(' ')?;
    let is_hex = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    (1..=ID_MAX).contains(&id).then_some(id)
}

/// Writes the file under another name first: a crash leaves it whole or not there.
fn write(folder: &Path, id: u64) -> Result<(), IdentityError> {
    let (new, path) = (folder.join(NEW_FILE), folder.join(FILE));
    let failed = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| IdentityError::File { action, path, source }
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(&new)
        .map_err(failed("create", &new))?;
    writeln!(file, "{FORM} {id:016x}").and_then(|()| file.sync_all()).map_err(failed("write", &new))?;
    fs::rename(&new, &path).map_err(failed("rename to", &path))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}

const FILE: &str = "node";
const NEW_FILE: &str = "node.new";
const FORM: &str = "ferrybus-node-1";
const FILE_MODE: u32 = 0o600;
/// An id is positive as a signed number of 64 bits as well.
const ID_MAX: u64 = u64::MAX >> 1;

#[cfg(test)]
mod tests;
