//! Direct I/O (`O_DIRECT`): the disk reads records from the write cache, past the page cache.
//!
//! Such a write has whole blocks, of the file and of memory. Records lie in memory as they will lie in the file, seen
//! from the beginning of a block, so most blocks can be taken in place; those that have several pieces are gathered.
//!
//! Invariant: a block that an earlier write has begun is written again with the same beginning.

use std::{
    fs::File,
    io::{self, IoSlice},
    mem,
};

use rustix::io::{Errno, ReadWriteFlags};

use super::{BLOCK_BYTES, real::write_vectored_at};
use crate::FileId;

/// The file that is written past the page cache at the moment.
#[derive(Debug, Default)]
pub(super) struct Direct {
    current: Option<Current>,
    /// Blocks with several pieces.
    stage: Vec<u8>,
    /// The file system cannot do it.
    is_unknown: bool,
}

#[derive(Debug)]
struct Current {
    id: FileId,
    file: File,
    /// End of the last write.
    end: u64,
    /// The block in which it ended, up to there.
    begun: Vec<u8>,
}

impl Direct {
    /// Writes `parts` from `offset` on, and zeros to the end of the last block. `open` opens the file for it, `read`
    /// reads from an offset. `EOPNOTSUPP` and `EINVAL` say that it cannot be done this way.
    pub(super) fn append(
        &mut self,
        id: FileId,
        offset: u64,
        parts: &[IoSlice<'_>],
        open: impl FnOnce() -> io::Result<File>,
        read: impl FnOnce(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        if self.is_unknown {
            return Err(Errno::OPNOTSUPP.into());
        }
        // After an error the content of the last block is unknown, so it is read again.
        let mut current = match self.current.take() {
            Some(current) if current.id == id && current.end == offset => current,
            _ => {
                let mut begun = vec![0; in_block(offset)];
                if !begun.is_empty() {
                    read(offset - begun.len() as u64, &mut begun)?;
                }
                Current { id, file: open()?, end: offset, begun }
            }
        };
        let whole = gather(&mut self.stage, &current.begun, parts);
        let first = offset - current.begun.len() as u64;
        write_vectored_at(&current.file, first, &whole, ReadWriteFlags::empty())?;
        current.end = offset + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        current.begun.clear();
        let last = whole.last().map_or(&[][..], |last| last.rchunks(BLOCK_BYTES).next().unwrap_or_default());
        current.begun.extend_from_slice(last.get(..in_block(current.end)).unwrap_or_default());
        self.current = Some(current);
        if self.stage.capacity() > STAGE_BYTES_MAX {
            self.stage = Vec::new();
        }
        Ok(())
    }

    /// Another handle writes to this file, creates or deletes it.
    pub(super) fn forget(&mut self, id: FileId) {
        self.current.take_if(|current| current.id == id);
    }

    /// The file system cannot do it.
    pub(super) fn disable(&mut self) {
        *self = Self { is_unknown: true, ..Self::default() };
    }

    /// Whether it was given up.
    #[cfg(test)]
    pub(super) const fn is_disabled(&self) -> bool {
        self.is_unknown
    }
}

/// The blocks to write: `head` begins the first of them, `parts` follow.
fn gather<'a>(stage: &'a mut Vec<u8>, head: &[u8], parts: &'a [IoSlice<'_>]) -> Vec<IoSlice<'a>> {
    let mut bytes = head.len();
    pieces(head.len(), parts, |piece| bytes += piece.gathered().len());
    bytes = bytes.next_multiple_of(BLOCK_BYTES);
    stage.clear();
    stage.reserve(BLOCK_BYTES + bytes);
    let start = stage.as_ptr().addr().wrapping_neg() % BLOCK_BYTES;
    stage.resize(start, 0);
    stage.extend_from_slice(head);
    pieces(head.len(), parts, |piece| stage.extend_from_slice(piece.gathered()));
    stage.resize(start + bytes, 0);

    let mut staged = stage.get(start..).unwrap_or_default();
    let mut take = |bytes: usize| {
        let (blocks, rest) = staged.split_at_checked(bytes).unwrap_or((staged, &[]));
        staged = rest;
        (!blocks.is_empty()).then(|| IoSlice::new(blocks))
    };
    let (mut whole, mut waiting) = (Vec::new(), head.len());
    pieces(head.len(), parts, |piece| match piece {
        Piece::Gathered(bytes) => waiting += bytes.len(),
        Piece::InPlace(blocks) => {
            whole.extend(take(mem::take(&mut waiting)));
            whole.push(IoSlice::new(blocks));
        }
    });
    // With the zeros to the end of its block.
    whole.extend(take(usize::MAX));
    whole
}

/// A piece of what is written.
enum Piece<'a> {
    /// Whole blocks of file and memory.
    InPlace(&'a [u8]),
    /// Anything else. What comes between two that are in place fills whole blocks.
    Gathered(&'a [u8]),
}

impl<'a> Piece<'a> {
    fn gathered(&self) -> &'a [u8] {
        match self {
            Self::Gathered(bytes) => bytes,
            Self::InPlace(_) => &[],
        }
    }
}

/// The pieces of `parts`, in order; the first part begins behind `begun` bytes of its block.
fn pieces<'a>(begun: usize, parts: &'a [IoSlice<'_>], mut each: impl FnMut(Piece<'a>)) {
    let mut at = begun;
    for part in parts {
        let missing = at.wrapping_neg() % BLOCK_BYTES;
        let (first, rest) = part.split_at_checked(missing).unwrap_or((part, &[]));
        let (whole, last) = rest.split_at(rest.len() - rest.len() % BLOCK_BYTES);
        let in_place = !whole.is_empty() && whole.as_ptr().addr().is_multiple_of(BLOCK_BYTES);
        each(Piece::Gathered(first));
        each(if in_place { Piece::InPlace(whole) } else { Piece::Gathered(whole) });
        each(Piece::Gathered(last));
        at += part.len();
    }
}

/// Bytes of its block before `offset`.
fn in_block(offset: u64) -> usize {
    usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or_default()
}

/// Larger memory for gathering is not kept.
const STAGE_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests;
