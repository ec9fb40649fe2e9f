//! Mark: the first batch of each segment, which numbers the batches and names the journal that they belong to.
//!
//! Invariant: a mark of another version, or of a replicated journal, is refused as newer, never read as if it were known.

use bytes::{Buf, BufMut};

use crate::{
    NewerPart,
    format::{HEADER, RECORD_HEADER},
};

/// Content of a mark's record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Mark {
    /// The shard whose journal this is.
    pub shard: u32,
    /// Number of the mark's batch. The batches of a journal are numbered from 1 on.
    pub number: u64,
    /// Random id of the node that wrote it.
    pub node: u64,
    /// Time when it was written, in milliseconds since 1970.
    pub time: u64,
}

/// Reason why the record of a mark is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotAMark {
    Newer(NewerPart),
    Malformed,
}

impl Mark {
    pub(crate) fn encode(&self) -> [u8; MARK_LEN] {
        let mut out = [0; MARK_LEN];
        let mut at = &mut out[..];
        at.put_u16_le(MARK_VERSION);
        // Flags, cluster, term, feature level and members belong to replicated journals.
        at.put_u16_le(0);
        at.put_u32_le(self.shard);
        at.put_u128_le(0);
        at.put_u64_le(0);
        at.put_u64_le(self.number);
        at.put_u64_le(self.node);
        at.put_u64_le(self.time);
        at.put_u16_le(0);
        at.put_u16_le(0);
        out
    }

    pub(crate) fn decode(content: &[u8]) -> Result<Self, NotAMark> {
        let mut at: &[u8] = content.first_chunk::<MARK_LEN>().ok_or(NotAMark::Malformed)?;
        let (version, flags, shard) = (at.get_u16_le(), at.get_u16_le(), at.get_u32_le());
        let (cluster, term) = (at.get_u128_le(), at.get_u64_le());
        let mark = Self { shard, number: at.get_u64_le(), node: at.get_u64_le(), time: at.get_u64_le() };
        let (_, members) = (at.get_u16_le(), at.get_u16_le());
        let newer = match (version, flags) {
            (MARK_VERSION, 0) if cluster != 0 || term != 0 => Some(NewerPart::Term(term)),
            (MARK_VERSION, 0) if members != 0 => Some(NewerPart::Members(members)),
            (MARK_VERSION, 0) => None,
            (MARK_VERSION, flags) => Some(NewerPart::MarkFlags(flags)),
            (version, _) => Some(NewerPart::MarkVersion(version)),
        };
        match newer {
            Some(part) => Err(NotAMark::Newer(part)),
            None if content.len() != MARK_LEN || mark.number == 0 => Err(NotAMark::Malformed),
            None => Ok(mark),
        }
    }
}

/// Bytes of a mark without members.
pub(crate) const MARK_LEN: usize = 60;
/// Bytes of the batch that is a mark, with its padding.
pub(crate) const MARK_BYTES: u64 = (HEADER + RECORD_HEADER + MARK_LEN as u64).next_multiple_of(HEADER);
const MARK_VERSION: u16 = 1;

#[cfg(test)]
mod tests;
