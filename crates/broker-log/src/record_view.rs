//! View of a record during recovery.
//!
//! Invariant: the index is always at hand; the rest is read only when it is asked for.

use bytes::Bytes;

use crate::{
    Disk, FileId, Position, ReadError,
    format::{RECORD_HEADER, RECORD_HEADER_LEN, RecordHeader, Seed},
};

/// A record found by [`crate::recover`].
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    at: Position,
    length: u32,
    index: &'a [u8],
    source: Source<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Memory(&'a Bytes),
    Disk { disk: &'a dyn Disk, file: FileId, offset: u64, seed: Seed },
}

impl<'a> RecordView<'a> {
    pub(crate) fn in_memory(at: u64, header: &RecordHeader, bytes: &'a Bytes) -> Self {
        let index = usize::try_from(header.index).ok().and_then(|end| bytes.get(..end)).unwrap_or_default();
        Self { at: Position(at), length: header.length, index, source: Source::Memory(bytes) }
    }

    pub(crate) fn on_disk(
        at: u64,
        length: u32,
        index: &'a [u8],
        disk: &'a dyn Disk,
        (file, offset, seed): (FileId, u64, Seed),
    ) -> Self {
        Self { at: Position(at), length, index, source: Source::Disk { disk, file, offset, seed } }
    }

    /// The index part of the record, as it was given to [`crate::Journal::append`].
    pub fn index(&self) -> &'a [u8] {
        self.index
    }

    /// Length of the whole record in bytes, the index included.
    #[expect(clippy::len_without_is_empty, reason = "a record is not a collection")]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// The whole record, read from disk when it lies in a segment that was recovered from its summary.
    pub fn full(&self) -> Result<Bytes, ReadError> {
        let (disk, file, offset, seed) = match self.source {
            Source::Memory(bytes) => return Ok(bytes.clone()),
            Source::Disk { disk, file, offset, seed } => (disk, file, offset, seed),
        };
        let stored = RECORD_HEADER + u64::from(self.length);
        let mut buffer = vec![0; usize::try_from(stored).unwrap_or(usize::MAX)];
        let read = disk.read_at(file, offset, &mut buffer).map_err(|error| ReadError::Disk {
            at: self.at,
            file,
            offset,
            message: error.to_string().into(),
        })?;
        buffer.truncate(read);
        let bytes = Bytes::from(buffer);
        RecordHeader::decode(&bytes)
            .filter(|header| header.length == self.length && bytes.len() as u64 == stored)
            .and_then(|header| {
                let bytes = bytes.slice(RECORD_HEADER_LEN..);
                header.matches(seed, &bytes).then_some(bytes)
            })
            .ok_or(ReadError::Corrupt { at: self.at, file, offset })
    }
}
