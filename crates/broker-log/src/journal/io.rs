//! Disk requests and their results.
//!
//! Invariant: one write is outstanding at most; records come before preparation; after a failure nothing is
//! handed out.

use std::io::ErrorKind;

use crate::{
    DiskFailure, Durability, Journal, PoisonReason,
    format::BatchKind,
    journal::Closing,
    segment_pool::PreparePriority,
    work::{Done, IoDone, IoRequest, Prepare, Request, Write},
    writer::Outstanding,
};

impl Journal {
    /// The next unit of work for the disk thread. Everything committed goes into one write and one sync (group
    /// commit); between writes, space is prepared. At most two requests are outstanding: a write, and one
    /// other (see [`IoRequest::is_write`]). The two may be performed at the same time: they touch different files.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        if self.disk.is_none() || self.poison.is_some() {
            return None;
        }
        let request = match self.next_write() {
            Some(write) => Request::Write(write),
            None if self.in_background => return None,
            None => {
                let request = self.next_in_background()?;
                self.in_background = true;
                request
            }
        };
        Some(IoRequest(request))
    }

    /// Takes the result of a request. A failure poisons the journal.
    pub fn handle_io(&mut self, done: IoDone) {
        match done.0 {
            Done::Written(result, free_bytes) => {
                self.measured(free_bytes);
                let finished = self.writer.finish();
                match (result, finished) {
                    (Ok(()), Some(finished)) => self.written(finished),
                    (Err(failure), _) => self.fail(failure),
                    (Ok(()), None) => {}
                }
            }
            Done::Prepared(step, result, free_bytes) => {
                self.in_background = false;
                self.measured(free_bytes);
                self.prepared(&step, result);
            }
            Done::Deleted(result) => {
                self.in_background = false;
                // A file that could not be deleted holds no live record, and the next recovery finds it again.
                self.counters.failed_deletes += u64::from(result.is_err());
            }
            Done::Measured(free_bytes) => {
                self.in_background = false;
                self.measured(free_bytes);
            }
        }
    }

    fn next_write(&mut self) -> Option<Write> {
        if self.writer.is_writing() {
            return None;
        }
        if !self.in_unit && self.wants_write() {
            self.seal_for_write();
        }
        let known = self.tail_known;
        let fsync = self.config.durability == Durability::Fsync;
        // Even without fsync, a segment is used again only when the disk surely knows that it is dead.
        let group = self.writer.next_group(|tail| fsync || tail > known)?;
        let segment = self.segments.at(group.position)?;
        self.is_idle = false;
        self.write_bytes = group.outstanding.end - group.position;
        Some(Write {
            file: segment.file,
            create: group.create,
            offset: group.position - segment.base,
            parts: group.parts,
            records: group.records,
            sync: group.outstanding.sync,
        })
    }

    /// Whether what is committed should be written now.
    fn wants_write(&self) -> bool {
        let unwritten = self.writer.end.saturating_sub(self.durable);
        self.urgent > self.durable
            || unwritten >= GROUP_COMMIT_BYTES
            || self.writer.has_pending()
            || self.closing == Closing::Asked
            || self.tail_known < self.segments.tail()
    }

    fn seal_for_write(&mut self) {
        if self.writer.is_open() {
            self.seal();
        }
        if self.closing == Closing::Asked {
            self.closing = Closing::Marked;
            self.mark(BatchKind::Closed);
        } else if !self.writer.has_pending() && self.tail_known < self.segments.tail() {
            self.mark(BatchKind::Data);
        }
    }

    /// Adds a batch that carries the watermarks only.
    fn mark(&mut self, kind: BatchKind) {
        let marks = self.watermarks();
        self.writer.push_mark(self.segments.newest(), marks, kind, 0);
        self.segments.grow(self.writer.end, 0);
    }

    fn next_in_background(&mut self) -> Option<Request> {
        if let Some(file) = self.segment_pool.pop_file_to_delete() {
            return Some(Request::Delete(file));
        }
        let pace = match self.is_idle {
            true => PreparePriority::Background,
            false if self.writes_are_small() => PreparePriority::KeepUp,
            false => PreparePriority::Stopped,
        };
        let used = self.writer.end - self.segments.newest().base;
        if let Some(step) = self.segment_pool.next_step(used, pace, self.has_room_for_spare()) {
            self.segment_pool.began(&step);
            return Some(Request::Prepare(step));
        }
        self.full_told.take().then_some(Request::Measure)
    }

    /// Whether a sync of new space would cost more than the writing.
    pub(super) fn writes_are_small(&self) -> bool {
        self.write_bytes < LARGE_WRITE_BYTES
    }

    fn written(&mut self, finished: Outstanding) {
        self.counters.writes += 1;
        self.durable = finished.end;
        if finished.sync {
            self.counters.syncs += 1;
            if self.config.durability == Durability::Fsync {
                self.synced = finished.end;
            }
            self.tail_known = self.tail_known.max(finished.tail);
        }
        self.write_cache.note_written(self.durable);
        self.write_cache.shrink(self.config.cache_bytes, self.durable);
        self.free_waiting();
        self.recycle_retired();
    }

    fn prepared(&mut self, step: &Prepare, result: Result<(), DiskFailure>) {
        match result {
            Ok(()) => self.segment_pool.prepared(step.file, step.offset + step.length),
            Err(failure) if is_full(failure.kind) => {
                self.segment_pool.on_disk_full(step.file, self.free_bytes.unwrap_or(0));
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn fail(&mut self, failure: DiskFailure) {
        if self.poison.is_none() {
            self.poison = Some(PoisonReason::from(failure));
        }
    }

    fn measured(&mut self, free_bytes: Option<u64>) {
        if let Some(free_bytes) = free_bytes {
            self.free_bytes = Some(free_bytes);
            self.segment_pool.on_space_freed(free_bytes);
        }
    }
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Writes this long gain nothing from space that was written ahead: the disk has to take the bytes twice, and what
/// a sync of new space costs more is spread over many records.
const LARGE_WRITE_BYTES: u64 = 256 << 10;
/// So much is written even when nobody waits for it.
const GROUP_COMMIT_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
