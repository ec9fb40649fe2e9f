//! Disk requests and their results.
//!
//! Invariant: one write is outstanding at most; records come before reads, and both before preparation; after a failed
//! write nothing is handed out.

use std::io::ErrorKind;

use crate::{
    DiskFailure, Durability, Journal, PoisonReason,
    compaction::Compactor,
    format::BatchKind,
    journal::Closing,
    work::{Done, IoDone, IoRequest, Prepare, Request, Write},
    writer::Outstanding,
};

impl Journal {
    /// The next unit of work for the disk threads. Everything committed goes into one write and one sync (group
    /// commit); between writes, space is prepared. At most one write is outstanding ([`IoRequest::is_write`]), a few reads
    /// ([`IoRequest::is_read`]), one of them compaction's, and one other request. All of them may be performed at the same time: reads touch no byte
    /// that is written, and the others touch different files.
    pub fn poll_io(&mut self) -> Option<IoRequest> {
        if self.disk.is_none() || self.poison.is_some() {
            return None;
        }
        if let Some(write) = self.next_write() {
            return Some(IoRequest(Request::Write(write)));
        }
        if self.closing == Closing::No {
            if let Some(read) = self.read_ahead.next_read() {
                return Some(IoRequest(Request::Read(read)));
            }
            if let Some(read) = self.compactor.next_read() {
                return Some(IoRequest(Request::ReadSegment(read)));
            }
        }
        if self.background.is_outstanding() {
            return None;
        }
        let request = self.next_in_background()?;
        self.background.begin();
        Some(IoRequest(request))
    }

    /// Takes the result of a request. A failure poisons the journal.
    pub fn handle_io(&mut self, done: IoDone) {
        match done.0 {
            Done::Written(result, free_bytes) => {
                self.measured(free_bytes);
                let finished = self.appender.finish_write();
                match (result, finished) {
                    (Ok(()), Some(finished)) => self.written(finished),
                    (Err(failure), _) => self.fail(failure),
                    (Ok(()), None) => {}
                }
            }
            Done::Prepared(step, result, free_bytes) => {
                self.background.finish();
                self.measured(free_bytes);
                self.prepared(&step, result);
            }
            Done::Deleted(result) => {
                self.background.finish();
                if result.is_err() {
                    self.segment_pool.on_delete_failed();
                }
                // The space that it has freed is measured where sends are refused for want of it.
                self.storage_full();
            }
            Done::Measured(free_bytes) => {
                self.background.finish();
                self.measured(free_bytes);
            }
            Done::Read(id, result) => {
                let segments = &self.segments;
                self.read_ahead.on_read(id, result, |start| segments.at(start).is_some());
                self.recycle_retired();
            }
            Done::SegmentRead(result) => self.compactor.on_read(result),
        }
    }

    fn next_write(&mut self) -> Option<Write> {
        if self.appender.is_writing() {
            return None;
        }
        if !self.appender.in_unit() && self.wants_write() {
            self.seal_for_write();
        }
        let known = self.progress.tail_known();
        let fsync = self.config.durability == Durability::Fsync;
        // Even without fsync, a segment is used again only when the disk surely knows that it is dead.
        let group = self.appender.next_group(|tail| fsync || tail > known)?;
        let segment = self.segments.at(group.position)?;
        self.background.on_write(group.outstanding.end - group.position);
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
        let unwritten = self.appender.end().saturating_sub(self.progress.durable());
        self.progress.is_requested()
            || unwritten >= GROUP_COMMIT_BYTES
            || self.appender.has_pending()
            || self.closing == Closing::Asked
            || self.disk_lacks_tail()
    }

    /// Whether the disk does not know yet that the oldest segments are dead.
    fn disk_lacks_tail(&self) -> bool {
        self.progress.tail_known() < self.segments.tail()
    }

    fn seal_for_write(&mut self) {
        let tail_is_due = self.disk_lacks_tail();
        let closes = self.closing == Closing::Asked;
        let (appender, mut context) = self.appending();
        appender.seal_open(&mut context);
        if closes {
            appender.push_empty(&mut context, BatchKind::Closed);
            self.closing = Closing::Marked;
        } else if !appender.has_pending() && tail_is_due {
            appender.push_empty(&mut context, BatchKind::Data);
        }
    }

    fn next_in_background(&mut self) -> Option<Request> {
        if let Some(file) = self.segment_pool.pop_file_to_delete() {
            return Some(Request::Delete(file));
        }
        let used = self.appender.end() - self.segments.newest().base;
        let files = (self.segments.count() + self.segment_pool.files()) as u64;
        let room = self.space.has_room_for_file(files + 1, self.config.segment_bytes);
        if let Some(step) = self.segment_pool.next_step(used, self.background.prepare_priority(), room) {
            self.segment_pool.began(&step);
            return Some(Request::Prepare(step));
        }
        self.space.take_measurement_due().then_some(Request::Measure)
    }

    /// Gives back the spares with which the journal takes more space than it may use before compaction begins, and all that are
    /// not wanted where space is tight.
    fn bound_spares(&mut self) {
        let (used, live) = (self.segments.used(), self.segments.live());
        let segment_bytes = self.config.segment_bytes.max(1);
        let files = (self.segments.count() + self.segment_pool.files()) as u64;
        let is_tight = self.space.is_tight(files.saturating_mul(segment_bytes));
        let allowed = if is_tight { 0 } else { Compactor::begins_at(&self.config, live) };
        let spares = allowed.saturating_sub(used) / segment_bytes;
        self.segment_pool.set_room(usize::try_from(spares).unwrap_or(usize::MAX));
    }

    fn written(&mut self, finished: Outstanding) {
        self.progress.on_written(finished, self.config.durability == Durability::Fsync);
        let durable = self.progress.durable();
        self.write_cache.note_written(durable);
        self.write_cache.shrink(self.config.cache_bytes, durable, &self.weights);
        self.free_segment();
        self.recycle_retired();
    }

    /// Files of dead segments may be used again when the disk knows that the segments are dead and no read of them is asked
    /// for.
    fn recycle_retired(&mut self) {
        if !self.segment_pool.has_retired() {
            return;
        }
        self.bound_spares();
        let first_read = self.read_ahead.first_asked().unwrap_or(u64::MAX);
        self.segment_pool.recycle_retired(self.progress.tail_known().min(first_read));
    }

    fn prepared(&mut self, step: &Prepare, result: Result<(), DiskFailure>) {
        match result {
            Ok(()) => self.segment_pool.prepared(step.file, step.offset + step.length),
            Err(failure) if is_full(failure.kind) => {
                self.segment_pool.on_disk_full(step.file, self.space.free_bytes().unwrap_or(0));
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
            self.space.on_measured(free_bytes);
            self.segment_pool.on_space_freed(free_bytes);
            self.bound_spares();
        }
    }
}

fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// So many bytes are written even when no effect waits for them.
const GROUP_COMMIT_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests;
