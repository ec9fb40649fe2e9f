//! Segment summary: the index of a segment's records, written behind them when the segment is full, so that recovery
//! need not read the bodies.
//!
//! Invariant: lists every record of its segment in order, or is not written.

use bytes::{Buf, BufMut};

use crate::format::RECORD_HEADER;

/// Collects the index of the newest segment.
#[derive(Debug)]
pub(crate) struct SummaryBuilder {
    entries: Vec<u8>,
    count: u32,
    /// Position behind the last record listed.
    end: u64,
    /// More bytes than this are no summary.
    limit: usize,
    given_up: bool,
}

impl SummaryBuilder {
    /// For a segment that begins at `base`.
    pub(crate) fn new(base: u64, segment_bytes: u64) -> Self {
        let limit = usize::try_from(segment_bytes / SHARE).unwrap_or(usize::MAX);
        Self { entries: Vec::new(), count: 0, end: base, limit, given_up: false }
    }

    /// Lists nothing, ever: in memory there is no recovery.
    pub(crate) fn disabled() -> Self {
        Self { entries: Vec::new(), count: 0, end: 0, limit: 0, given_up: true }
    }

    /// Begins anew, for the segment at `base`, with the same memory.
    pub(crate) fn reset(&mut self, base: u64) {
        self.entries.clear();
        self.count = 0;
        self.end = base;
        self.given_up = self.limit == 0;
    }

    /// Lists the record at `at`.
    pub(crate) fn add(&mut self, at: u64, length: u32, index: &[u8]) {
        if self.given_up {
            return;
        }
        let (Ok(gap), Ok(index_length)) = (u32::try_from(at - self.end), u32::try_from(index.len())) else {
            self.given_up = true;
            return;
        };
        if self.entries.len() + ENTRY_BYTES + index.len() > self.limit {
            // Hardly smaller than the records themselves: recovery may as well read those.
            self.given_up = true;
            self.entries = Vec::new();
            return;
        }
        self.entries.put_u32_le(gap);
        self.entries.put_u32_le(length);
        self.entries.put_u32_le(index_length);
        self.entries.put_slice(index);
        self.count += 1;
        self.end = at + RECORD_HEADER + u64::from(length);
    }

    /// Bytes the summary takes now.
    pub(crate) fn bytes(&self) -> u64 {
        self.entries.len() as u64
    }

    /// The summary: what [`entries`] reads; `None` when there is nothing to win.
    pub(crate) fn finished(&self) -> Option<&[u8]> {
        (!self.given_up && self.count > 0).then_some(&self.entries)
    }
}

/// One line of a summary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Entry<'a> {
    pub at: u64,
    /// Its length, without the header.
    pub length: u32,
    pub index: &'a [u8],
}

/// Reads a summary of the segment at `base`. `None` in the middle: these bytes are no summary.
pub(crate) fn entries(mut bytes: &[u8], base: u64) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut end = base;
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let entry = entry(&mut bytes, &mut end);
        if entry.is_none() {
            bytes = &[];
        }
        Some(entry)
    })
}

fn entry<'a>(bytes: &mut &'a [u8], end: &mut u64) -> Option<Entry<'a>> {
    if bytes.len() < ENTRY_BYTES {
        return None;
    }
    let (gap, length, index_length) = (bytes.get_u32_le(), bytes.get_u32_le(), bytes.get_u32_le());
    let (index, rest) = bytes.split_at_checked(usize::try_from(index_length).ok()?)?;
    *bytes = rest;
    let at = end.checked_add(u64::from(gap))?;
    *end = at.checked_add(RECORD_HEADER + u64::from(length))?;
    Some(Entry { at, length, index })
}

/// Fixed bytes of an entry: gap before the record, its length, length of its index.
const ENTRY_BYTES: usize = 12;
/// A summary takes at most one part in this many of a segment.
const SHARE: u64 = 4;

/// Whether these bytes read, to the last one, as the index of what the segment at `base` holds before `position`.
pub(crate) fn lists_records(content: &[u8], base: u64, position: u64) -> bool {
    let listed = |entry: Option<Entry<'_>>| {
        entry.is_some_and(|entry| entry.at + RECORD_HEADER + u64::from(entry.length) <= position)
    };
    !content.is_empty() && entries(content, base).all(listed)
}

#[cfg(test)]
mod tests;
