//! Files that are kept open.
//!
//! Invariant: at most [`OPEN_FILES_MAX`]; the one that was not used for longest makes room.

use std::{collections::BTreeMap, fs::File, io, sync::Arc};

use crate::FileId;

/// Open files of one kind of access. A journal may have more files than a process may have open.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    files: BTreeMap<FileId, OpenFile>,
    uses: u64,
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<File>,
    used: u64,
}

impl OpenFiles {
    /// The file, which `open` opens unless it is.
    pub(super) fn get(
        &mut self,
        id: FileId,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<File>> {
        self.uses += 1;
        if let Some(found) = self.files.get_mut(&id) {
            found.used = self.uses;
            return Ok(Arc::clone(&found.file));
        }
        let file = Arc::new(open()?);
        self.keep(id, Arc::clone(&file));
        Ok(file)
    }

    /// A file that was opened just now.
    pub(super) fn keep(&mut self, id: FileId, file: Arc<File>) {
        if self.files.len() >= OPEN_FILES_MAX
            && let Some(oldest) = self.files.iter().min_by_key(|(_, open)| open.used).map(|(id, _)| *id)
        {
            self.files.remove(&oldest);
        }
        self.files.insert(id, OpenFile { file, used: self.uses });
    }

    /// Number of open files.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The file is deleted.
    pub(super) fn remove(&mut self, id: FileId) {
        self.files.remove(&id);
    }
}

/// Files kept open; one that is not is opened again when it is needed.
pub(super) const OPEN_FILES_MAX: usize = 64;

#[cfg(test)]
mod tests;
