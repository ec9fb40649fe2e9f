//! Opening of the journal's end for appending, after replay.
//!
//! Invariant: when it returns, everything that was shown is durable, what was cut can never come back, and the
//! disk says so: with a batch that claims it.

use std::io::IoSlice;

use bytes::Bytes;

use crate::{
    Disk, FileId, JournalConfig, RecoveryError,
    file_inventory::FileInventory,
    format::{BatchKind, HEADER, spare_header},
    journal::RecoveredState,
    recovery::replay::Replay,
    segment_pool::{SegmentPool, longest_spare},
    segments::{Segment, Segments},
    work,
    writer::{Watermarks, Writer, WrittenBy},
};

pub(crate) fn open(
    disk: &dyn Disk,
    config: &JournalConfig,
    inventory: FileInventory,
    replay: Replay,
) -> Result<RecoveredState, RecoveryError> {
    let opening = Opening { disk, config, inventory, replay };
    opening.settle()?;
    opening.begin()
}

struct Opening<'a> {
    disk: &'a dyn Disk,
    config: &'a JournalConfig,
    inventory: FileInventory,
    replay: Replay,
}

impl Opening<'_> {
    /// Takes the headers from segments behind a cut, so that they never count again. That comes after the mark of this opening:
    /// until then they may be the only ones that state the tail, and files before it may have been used again.
    fn drop_cut_segments(&mut self) -> Result<(), RecoveryError> {
        for present in std::mem::take(&mut self.replay.dropped) {
            let header = spare_header();
            work::write_now(self.disk, present.file, 0, &header)?;
            work::sync_now(self.disk, present.file)?;
            self.inventory.spares.push((present.file, present.length));
        }
        Ok(())
    }

    /// Syncs what may not be durable yet. After a sync that failed, the kernel holds pages that it takes for
    /// written; so what no batch claims to be durable is written once more.
    fn settle(&self) -> Result<(), RecoveryError> {
        let synced = self.replay.synced;
        let Some(newest) = self.replay.segments.back() else { return Ok(()) };
        let begin = synced.max(newest.base);
        let mut at = begin;
        while at < newest.end {
            let length = (newest.end - at).min(COPY_BYTES);
            let mut buffer = vec![0; usize::try_from(length).unwrap_or_default()];
            self.disk
                .read_at(newest.file, at - newest.base, &mut buffer)
                .map_err(|error| RecoveryError::read(newest.file, at - newest.base, &error))?;
            work::write_now(self.disk, newest.file, at - newest.base, &buffer)?;
            at += length;
        }
        for segment in self.replay.segments.iter().filter(|segment| segment.end > synced) {
            work::sync_now(self.disk, segment.file)?;
        }
        self.disk.sync_dir().map_err(|error| RecoveryError::disk("syncing the directory", None, &error))
    }

    /// Writes the mark of this opening, in a new segment where one is needed.
    fn begin(mut self) -> Result<RecoveredState, RecoveryError> {
        let end = self.replay.end;
        // A batch has at least 64 bytes, so this number is beyond those of all batches before.
        let number = self.replay.number.unwrap_or(end / HEADER);
        let mut writer = Writer::new(end, self.replay.chain, number);
        let mut segments = std::mem::take(&mut self.replay.segments);
        let fresh = segments.is_empty() || self.replay.sealed;
        let mut newest = match segments.pop_back() {
            Some(newest) if !fresh => newest,
            last => {
                let number = last.as_ref().map_or(0, |last| last.number + 1);
                segments.extend(last);
                let (file, length) = self.file_for_segment()?;
                Segment { file_bytes: length, ..Segment::begin(number, file, end, self.config.salt) }
            }
        };
        let tail = segments.front().unwrap_or(&newest).base;
        let marks = Watermarks { synced: end, tail };
        if fresh {
            self.replay.summary.reset(newest.base);
            writer.begin_segment(&newest, marks, None, &WrittenBy::of(self.config, self.config.opened_at));
        }
        writer.push_empty(&newest, marks, BatchKind::Data, 0);
        if let Some(group) = writer.next_group(|_| true) {
            let parts: Vec<IoSlice<'_>> = group.parts.iter().map(|part: &Bytes| IoSlice::new(part)).collect();
            self.disk
                .write_at(newest.file, group.position - newest.base, &parts)
                .map_err(|error| RecoveryError::disk("writing", Some(newest.file), &error))?;
            work::sync_now(self.disk, newest.file)?;
            writer.finish();
        }
        self.drop_cut_segments()?;
        newest.end = writer.end;
        newest.file_bytes = newest.file_bytes.max(newest.end - newest.base);
        let (spares, next) = (self.inventory.spares, self.inventory.next_file);
        let unknown = self.inventory.unknown;
        let files = SegmentPool::new(
            self.config.segment_bytes,
            self.config.spare_segments,
            next,
            newest.file_bytes,
            spares.into_iter().chain(unknown),
        );
        Ok(RecoveredState {
            segments: Segments::new(segments, newest),
            writer,
            summary: self.replay.summary,
            segment_pool: files,
            free_bytes: self.disk.free_space().ok(),
        })
    }

    /// A spare, or a new file with its first bytes written ahead.
    fn file_for_segment(&mut self) -> Result<(FileId, u64), RecoveryError> {
        let size = self.config.segment_bytes;
        if let Some(index) =
            self.inventory.spares.iter().position(|(_, length)| (size..=longest_spare(size)).contains(length))
        {
            return Ok(self.inventory.spares.swap_remove(index));
        }
        let file = FileId(self.inventory.next_file);
        self.inventory.next_file = self.inventory.next_file.wrapping_add(1);
        let length = FIRST_BYTES.min(size);
        work::create(self.disk, file, size)
            .and_then(|()| work::write_zeros(self.disk, file, 0, length))
            .map_err(RecoveryError::from)?;
        Ok((file, length))
    }
}

/// So much of the very first file is written ahead before the journal opens; by the time it is used up, a spare
/// should be ready.
const FIRST_BYTES: u64 = 1 << 20;
/// Copied at once.
const COPY_BYTES: u64 = 1 << 20;
