//! Shards of a process: each has a journal, an executor and threads of its own, and the namespaces that live in its journal.
//!
//! Invariant: a namespace lives in one shard as long as it exists. The map from namespaces to shards is what the journals say.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::executor::Executor;

/// Most shards of a process: its journals share the disk.
pub(crate) const SHARDS_MAX: u16 = 64;
/// Folders of the shards behind the first begin with this, below the data folder, which is that of the first.
const FOLDER: &str = "shard-";

/// The executors of all shards, by their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Shards(Arc<[Arc<Executor>]>);

impl Shards {
    /// These shards, numbered from 0.
    pub(crate) fn new(executors: impl IntoIterator<Item = Arc<Executor>>) -> Self {
        Self(executors.into_iter().collect())
    }

    /// The shard of the default namespace.
    pub(crate) fn first(&self) -> &Arc<Executor> {
        self.0.first().expect("a process has one shard at least")
    }

    /// One of them.
    pub(crate) fn get(&self, number: u16) -> Option<&Arc<Executor>> {
        self.0.get(usize::from(number))
    }

    /// Whether all of them work; else one recovers, or the broker ends.
    pub(crate) fn all_work(&self) -> bool {
        !self.0.iter().any(|executor| executor.has_ended())
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[Arc<Executor>] {
        &self.0
    }
}

/// Folder of a shard's journal.
pub(crate) fn folder(data_dir: &Path, shard: u16) -> PathBuf {
    match shard {
        0 => data_dir.to_owned(),
        shard => data_dir.join(format!("{FOLDER}{shard}")),
    }
}

/// Number of shards of a process that is to have `wanted`: all that have a journal are opened.
pub(crate) fn count(data_dir: &Path, wanted: u16) -> io::Result<u16> {
    let entries = match fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(wanted.max(1)),
        Err(error) => return Err(error),
    };
    let mut count = wanted.max(1);
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u16>().ok());
        if let Some(number) = number.filter(|number| (1..SHARDS_MAX).contains(number)) {
            count = count.max(number + 1);
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
