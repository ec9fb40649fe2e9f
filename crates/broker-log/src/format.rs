//! On-disk format: headers of segments, batches and records (docs/disk-format.md).
//!
//! Invariant: what decodes is what was encoded, in this segment's present life; leftovers of a file's earlier
//! life carry another incarnation and fail their checksum.

use std::iter;

use bytes::{Buf, BufMut};

use crate::{
    NewerPart,
    crc::{crc32c, crc32c_append, crc32c_of},
};

/// Version of the format that is written.
pub(crate) const VERSION: u32 = 2;
/// The format of ferrybus 0.1.0: batches are not numbered, and records have another head. [`crate::migrate()`] reads it.
pub(crate) const VERSION_0_1: u32 = 1;
/// Bytes of a segment header and of a batch header.
pub(crate) const HEADER: u64 = 64;
/// [`HEADER`] for buffers.
pub(crate) const HEADER_LEN: usize = 64;
/// Bytes of a record header: length, length of the index, checksum.
pub(crate) const RECORD_HEADER: u64 = 12;
/// [`RECORD_HEADER`] for buffers.
pub(crate) const RECORD_HEADER_LEN: usize = 12;

const SEGMENT_MAGIC: [u8; 8] = *b"FERRYSEG";
const SPARE_MAGIC: [u8; 8] = *b"FERRYSPR";
pub(crate) const BATCH_MAGIC: [u8; 4] = *b"FBAT";
/// Bytes of a header that its checksum covers: all but the checksum itself.
const COVERED: usize = 60;

/// The next multiple of 64: batches begin there, so that a search for one needs to look at few places.
pub(crate) fn aligned(position: u64) -> u64 {
    position.next_multiple_of(HEADER)
}

/// The first bytes of a segment file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SegmentHeader {
    /// [`VERSION`], or [`VERSION_0_1`] in a journal that is to be migrated.
    pub version: u32,
    /// Position of the first byte of this header.
    pub base: u64,
    /// Seeds every checksum of this life of the file.
    pub incarnation: u64,
    /// Everything before this position was durable when the header was written.
    pub synced: u64,
    /// Start of replay: everything before it is dead.
    pub tail: u64,
    /// Checksum of the last batch of the segment before.
    pub previous: u32,
    /// Left by a repair: what the first batch names as the checksum before it, instead of this header's.
    pub resume: Option<u32>,
}

/// Reason why the first bytes of a file are no segment header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum NotASegment {
    /// A spare: written ahead, not in use.
    Spare,
    /// The header of a newer version of the program.
    Newer(NewerPart),
    /// Neither: short, zeros, foreign or damaged.
    Unknown,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut at = &mut out[..];
        at.put_slice(&SEGMENT_MAGIC);
        at.put_u32_le(self.version);
        at.put_u32_le(0);
        at.put_u64_le(self.base);
        at.put_u64_le(self.incarnation);
        at.put_u64_le(self.synced);
        at.put_u64_le(self.tail);
        at.put_u64_le(encode_resume(self.resume));
        at.put_u32_le(self.previous);
        with_checksum(out, 0)
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, NotASegment> {
        let (covered, checksum) = split_checksum(bytes);
        if crc32c(covered) != checksum {
            return Err(NotASegment::Unknown);
        }
        let mut at = covered;
        let mut magic = [0; 8];
        at.copy_to_slice(&mut magic);
        let version = at.get_u32_le();
        match magic {
            SPARE_MAGIC => return Err(NotASegment::Spare),
            SEGMENT_MAGIC if [VERSION, VERSION_0_1].contains(&version) => {}
            SEGMENT_MAGIC => return Err(NotASegment::Newer(NewerPart::Format(version))),
            _ => return Err(NotASegment::Unknown),
        }
        let flags = at.get_u32_le();
        if flags != 0 {
            return Err(NotASegment::Newer(NewerPart::SegmentFlags(flags)));
        }
        let (base, incarnation, synced, tail) =
            (at.get_u64_le(), at.get_u64_le(), at.get_u64_le(), at.get_u64_le());
        let resume = at.get_u64_le();
        if let Some(unknown) = unknown_resume_bits(resume) {
            return Err(NotASegment::Newer(NewerPart::SegmentResume(unknown)));
        }
        if !positions(&[base, tail]) || synced > POSITION_MAX {
            return Err(NotASegment::Unknown);
        }
        let resume = decode_resume(resume);
        Ok(Self { version, base, incarnation, synced, tail, previous: at.get_u32_le(), resume })
    }

    /// Checksum that the first batch of this segment states as its predecessor's.
    pub(crate) fn chain(&self) -> u32 {
        self.resume.unwrap_or_else(|| split_checksum(&self.encode()).1)
    }
}

/// Whether segments and batches can begin at all of these.
fn positions(all: &[u64]) -> bool {
    all.iter().all(|position| *position <= POSITION_MAX && position.is_multiple_of(HEADER))
}

/// No journal gets this far (at a gigabyte a second it takes a century); what claims to is refused, and sums of a
/// position and a length never overflow.
const POSITION_MAX: u64 = 1 << 62;

/// A checksum that a repair left, as 64 bits: any checksum is possible, so one bit says that there is one.
pub(crate) fn encode_resume(resume: Option<u32>) -> u64 {
    resume.map_or(0, |chain| RESUMES | u64::from(chain))
}

pub(crate) fn decode_resume(bits: u64) -> Option<u32> {
    (bits & RESUMES != 0).then(|| u32::try_from(bits & !RESUMES).ok()).flatten()
}

/// Bits beside a chain value and [`RESUMES`], which this version gives no meaning; `None`: there are none.
fn unknown_resume_bits(bits: u64) -> Option<u64> {
    Some(bits & !(RESUMES | u64::from(u32::MAX))).filter(|unknown| *unknown != 0)
}

const RESUMES: u64 = 1 << 32;

/// The header of a file that is ready for use and holds nothing.
pub(crate) fn spare_header() -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    let mut at = &mut out[..];
    at.put_slice(&SPARE_MAGIC);
    at.put_u32_le(VERSION);
    with_checksum(out, 0)
}

/// Kind of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BatchKind {
    /// Records; none, when only the watermarks matter. `extra`: 0; left by a repair that marked records as lost,
    /// what the next batch names as the checksum before it.
    Data,
    /// One record: the index of the segment's records.
    Summary,
    /// The last batch of a segment. `extra`: position of the summary, 0 when there is none.
    Seal,
    /// Clean shutdown: nothing follows. Overwritten by the next opening.
    Closed,
    /// Left by a repair in place of damage: its body means nothing. `extra` as in `Data`.
    Gap,
    /// The first batch of a segment. One record: the [`crate::mark::Mark`].
    Mark,
    /// A kind that a newer version of the program writes. The scanner never shows one.
    Newer(u16),
}

impl BatchKind {
    fn code(self) -> u16 {
        match self {
            Self::Data => 1,
            Self::Summary => 2,
            Self::Seal => 3,
            Self::Closed => 4,
            Self::Gap => 5,
            Self::Mark => 6,
            Self::Newer(code) => code,
        }
    }

    fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Data,
            2 => Self::Summary,
            3 => Self::Seal,
            4 => Self::Closed,
            5 => Self::Gap,
            6 => Self::Mark,
            newer => Self::Newer(newer),
        }
    }
}

/// The first bytes of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BatchHeader {
    pub kind: BatchKind,
    /// 0 in this version.
    pub flags: u16,
    /// Number of records.
    pub count: u32,
    /// Checksum of the batch before, or of the segment header.
    pub previous: u32,
    /// Bytes of header and records, without the padding behind them.
    pub length: u32,
    /// Position of the first byte of this header.
    pub position: u64,
    pub incarnation: u64,
    /// Everything before this position was durable when the batch was written.
    pub synced: u64,
    /// Start of replay.
    pub tail: u64,
    /// By kind.
    pub extra: u64,
}

impl BatchHeader {
    /// The header with its checksum, which goes on from `records`: the checksum over the records' checksums.
    pub(crate) fn encode(&self, records: RecordsChecksum) -> ([u8; HEADER_LEN], u32) {
        let mut out = [0; HEADER_LEN];
        let mut at = &mut out[..];
        at.put_slice(&BATCH_MAGIC);
        at.put_u16_le(self.kind.code());
        at.put_u16_le(self.flags);
        at.put_u32_le(self.count);
        at.put_u32_le(self.previous);
        at.put_u32_le(self.length);
        at.put_u64_le(self.position);
        at.put_u64_le(self.incarnation);
        at.put_u64_le(self.synced);
        at.put_u64_le(self.tail);
        at.put_u64_le(self.extra);
        let out = with_checksum(out, records.0);
        let checksum = split_checksum(&out).1;
        (out, checksum)
    }

    /// Fields of the header without a check of the checksum. `None`: these bytes begin no batch. Kind, flags and `extra` may
    /// be those of a newer version, which [`BatchHeader::newer`] judges once the checksum is known to be right.
    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let mut at = split_checksum(bytes).0;
        let mut magic = [0; 4];
        at.copy_to_slice(&mut magic);
        let (kind, flags) = (BatchKind::from_code(at.get_u16_le()), at.get_u16_le());
        if magic != BATCH_MAGIC {
            return None;
        }
        let (count, previous, length) = (at.get_u32_le(), at.get_u32_le(), at.get_u32_le());
        let header = Self {
            kind,
            flags,
            count,
            previous,
            length,
            position: at.get_u64_le(),
            incarnation: at.get_u64_le(),
            synced: at.get_u64_le(),
            tail: at.get_u64_le(),
            extra: at.get_u64_le(),
        };
        (positions(&[header.position, header.tail]) && header.synced <= POSITION_MAX).then_some(header)
    }

    /// The part of a batch with a right checksum that only a newer version of the program understands. Such a batch may be the
    /// answer to a client: it is refused, never cut off and never taken for damage.
    pub(crate) fn newer(&self) -> Option<NewerPart> {
        if self.flags != 0 {
            return Some(NewerPart::BatchFlags(self.flags));
        }
        let extra = match self.kind {
            BatchKind::Newer(code) => return Some(NewerPart::BatchKind(code)),
            BatchKind::Data | BatchKind::Gap => unknown_resume_bits(self.extra),
            BatchKind::Summary | BatchKind::Closed | BatchKind::Mark => {
                Some(self.extra).filter(|extra| *extra != 0)
            }
            BatchKind::Seal => None,
        };
        extra.map(NewerPart::BatchExtra)
    }

    /// Checksum that the next batch states as its predecessor's, when this one's is `checksum`.
    pub(crate) fn chain(&self, checksum: u32) -> u32 {
        match self.kind {
            BatchKind::Data | BatchKind::Gap => decode_resume(self.extra).unwrap_or(checksum),
            BatchKind::Summary
            | BatchKind::Seal
            | BatchKind::Closed
            | BatchKind::Mark
            | BatchKind::Newer(_) => checksum,
        }
    }

    /// The checksum, if it is right for a header of these bytes after `records`.
    pub(crate) fn verify(bytes: &[u8; HEADER_LEN], records: RecordsChecksum) -> Option<u32> {
        let (covered, checksum) = split_checksum(bytes);
        (crc32c_append(records.0, covered) == checksum).then_some(checksum)
    }
}

/// Initial value of every checksum in one incarnation of a segment file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn of(incarnation: u64) -> Self {
        Self(crc32c(&incarnation.to_le_bytes()))
    }
}

/// The checksum over the checksums of a batch's records: each byte of a batch is summed once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RecordsChecksum(u32);

impl RecordsChecksum {
    pub(crate) fn new(seed: Seed) -> Self {
        Self(seed.0)
    }

    pub(crate) fn add(&mut self, record: u32) {
        self.0 = crc32c_append(self.0, &record.to_le_bytes());
    }
}

/// The first bytes of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RecordHeader {
    /// Bytes that follow this header.
    pub length: u32,
    /// Length of the index among them.
    pub index: u32,
    /// Checksum over the two numbers and the bytes.
    pub checksum: u32,
}

impl RecordHeader {
    /// The header of a record given in parts.
    pub(crate) fn of(seed: Seed, length: u32, index: &[u8], rest: &[&[u8]]) -> Self {
        let index_length = u32::try_from(index.len()).unwrap_or(u32::MAX);
        let pieces = iter::once(index).chain(rest.iter().copied());
        let checksum = crc32c_of(Self::begin(seed, length, index_length), pieces);
        Self { length, index: index_length, checksum }
    }

    /// The header of a record that never leaves memory.
    pub(crate) fn unchecked(length: u32, index: &[u8]) -> Self {
        Self { length, index: u32::try_from(index.len()).unwrap_or(u32::MAX), checksum: 0 }
    }

    /// Whether these are the bytes the header was made for.
    pub(crate) fn matches(&self, seed: Seed, bytes: &[u8]) -> bool {
        crc32c_append(Self::begin(seed, self.length, self.index), bytes) == self.checksum
    }

    fn begin(seed: Seed, length: u32, index: u32) -> u32 {
        let numbers = u64::from(index) << 32 | u64::from(length);
        crc32c_append(seed.0, &numbers.to_le_bytes())
    }

    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_LEN] {
        let mut out = [0; RECORD_HEADER_LEN];
        let mut at = &mut out[..];
        at.put_u32_le(self.length);
        at.put_u32_le(self.index);
        at.put_u32_le(self.checksum);
        out
    }

    /// The header at the beginning of `bytes`; `None` when they are too few or the index exceeds the length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut at: &[u8] = bytes.first_chunk::<RECORD_HEADER_LEN>()?;
        let header = Self { length: at.get_u32_le(), index: at.get_u32_le(), checksum: at.get_u32_le() };
        (header.index <= header.length || header.is_lost()).then_some(header)
    }

    /// The header of a record of `length` bytes that a repair gave up.
    pub(crate) fn lost(length: u32) -> Self {
        Self { length, index: LOST, checksum: 0 }
    }

    /// Whether a repair gave this record up: its bytes mean nothing.
    pub(crate) fn is_lost(&self) -> bool {
        self.index == LOST
    }
}

fn with_checksum(mut bytes: [u8; HEADER_LEN], seed: u32) -> [u8; HEADER_LEN] {
    let (covered, place) = bytes.split_at_mut(COVERED);
    place.copy_from_slice(&crc32c_append(seed, covered).to_le_bytes());
    bytes
}

fn split_checksum(bytes: &[u8; HEADER_LEN]) -> (&[u8], u32) {
    let (covered, place) = bytes.split_at(COVERED);
    (covered, u32::from_le_bytes(place.try_into().unwrap_or_default()))
}

/// An index of this length marks a lost record.
const LOST: u32 = u32::MAX;

#[cfg(test)]
mod tests;
