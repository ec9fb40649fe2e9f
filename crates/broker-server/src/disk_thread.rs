//! Disk threads. A small write is performed at once on the thread that runs the node, as long as nothing else waits,
//! the disk is quick and no file has to be created; other writes go to a thread of their own, and files are prepared
//! and deleted by another, so that no record waits for that. Records that are not in memory are read by two more.
//!
//! Invariant: the journal has at most one write and one request for files outstanding, so each kind keeps its order. Reads may
//! be done in any order.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use broker_log::{DiskWorker, IoDone, IoRequest, RealDisk};
use tracing::error;

use crate::{clock, executor::Executor, metrics::ShardMetrics};

/// Disk workers of the node.
#[derive(Debug)]
pub(crate) struct DiskThread {
    writes: DiskThreadHandle,
    others: DiskThreadHandle,
    reads: DiskThreadHandle,
    worker: Worker,
}

/// One thread or several for requests of one kind, and the way to them. Dropped, they end and are waited for, so that the next
/// broker may have the folder.
#[derive(Debug)]
struct DiskThreadHandle {
    requests: Option<SyncSender<IoRequest>>,
    threads: Vec<JoinHandle<()>>,
}

type Worker = Arc<Mutex<TimedDiskWorker>>;

/// Performs requests, and knows how long that takes.
#[derive(Debug)]
struct TimedDiskWorker {
    worker: DiskWorker<Arc<RealDisk>>,
    metrics: Arc<ShardMetrics>,
    /// Writes that were soon done, since the last that was not; counted to [`QUICK_WRITES`].
    quick_writes: u32,
}

impl TimedDiskWorker {
    fn on(disk: Arc<RealDisk>, metrics: &Arc<ShardMetrics>) -> Worker {
        let (worker, metrics) = (DiskWorker::new(disk), Arc::clone(metrics));
        Arc::new(Mutex::new(Self { worker, metrics, quick_writes: QUICK_WRITES }))
    }

    fn perform(&mut self, request: IoRequest) -> IoDone {
        let written = request.is_write().then(|| (request.bytes(), request.records()));
        let is_awaited_read = request.is_read() && !request.is_for_compaction();
        let begin = clock::instant();
        let done = self.worker.perform(request);
        let took = clock::instant().saturating_duration_since(begin);
        self.note(took);
        if let Some((bytes, records)) = written {
            self.metrics.wrote(bytes, records, took);
        } else if is_awaited_read {
            self.metrics.read(took);
        }
        done
    }

    /// Learns from how long a request took.
    fn note(&mut self, took: Duration) {
        self.quick_writes = if took < QUICK { (self.quick_writes + 1).min(QUICK_WRITES) } else { 0 };
    }

    /// Whether a connection's thread may wait for the next write.
    fn is_quick(&self) -> bool {
        self.quick_writes >= QUICK_WRITES
    }
}

/// The journal asks for at most one write, a few reads and a little background work at a time.
const REQUESTS_MAX: usize = 16;
/// Threads that read. With two a disk is asked for the next window while what the last one brought is delivered: the thread
/// that has read it does that.
const READERS: usize = 2;
/// A write up to this size, in bytes, is likely that of a sender that waits for each message: for it the wait costs
/// less than two thread switches. For a sender that pipelines, reading continues meanwhile.
const AT_ONCE_BYTES_MAX: u64 = 8 << 10;
/// While requests take longer, no connection's thread waits for one.
const QUICK: Duration = Duration::from_millis(2);
/// After one that took longer, so many in a row must have been quick before a connection's thread waits for one again.
const QUICK_WRITES: u32 = 16;

impl DiskThread {
    /// Starts the threads; they have ended when this is dropped.
    pub(crate) fn start(disk: &Arc<RealDisk>, executor: &Arc<Executor>) -> io::Result<Self> {
        let worker = TimedDiskWorker::on(Arc::clone(disk), executor.metrics());
        let writes = DiskThreadHandle::start("journal", [by(Arc::clone(&worker))], executor)?;
        let others = TimedDiskWorker::on(Arc::clone(disk), executor.metrics());
        let others = DiskThreadHandle::start("files", [by(others)], executor)?;
        let readers = [(); READERS].map(|()| by(TimedDiskWorker::on(Arc::clone(disk), executor.metrics())));
        let reads = DiskThreadHandle::start("reads", readers, executor)?;
        Ok(Self { writes, others, reads, worker })
    }

    /// Performs `request`: at once if it is small, the caller is `alone` in running the node, and the disk is idle and
    /// fast; otherwise on the thread, which reports to the executor.
    pub(crate) fn perform(&self, request: IoRequest, alone: impl Fn() -> bool) -> Option<IoDone> {
        if request.is_read() {
            self.reads.give(request);
            return None;
        }
        if !request.is_write() {
            self.others.give(request);
            return None;
        }
        if request.bytes() <= AT_ONCE_BYTES_MAX
            && !request.creates_file()
            && let Ok(mut worker) = self.worker.try_lock()
            && worker.is_quick()
            && alone()
        {
            return Some(worker.perform(request));
        }
        self.writes.give(request);
        None
    }
}

impl DiskThreadHandle {
    /// A thread for each way to perform a request. A panic in it ends the node, which waits for an answer.
    fn start<P: FnMut(IoRequest) -> IoDone + Send + 'static>(
        name: &str,
        performers: impl IntoIterator<Item = P>,
        executor: &Arc<Executor>,
    ) -> io::Result<Self> {
        let (requests, waiting) = mpsc::sync_channel::<IoRequest>(REQUESTS_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut started = Self { requests: Some(requests), threads: Vec::new() };
        for mut perform in performers {
            let (waiting, executor) = (Arc::clone(&waiting), Arc::clone(executor));
            let thread = thread::Builder::new().name(name.into()).spawn(move || {
                let work = AssertUnwindSafe(|| {
                    while let Some(request) = next(&waiting) {
                        executor.complete_io(perform(request));
                    }
                });
                if catch_unwind(work).is_err() {
                    executor.fail();
                }
            })?;
            started.threads.push(thread);
        }
        Ok(started)
    }

    fn give(&self, request: IoRequest) {
        if self.requests.as_ref().is_none_or(|requests| requests.send(request).is_err()) {
            error!("a disk thread is gone");
        }
    }
}

/// The next request, for one of the threads that wait for it; `None`: there will be none any more.
fn next(waiting: &Mutex<Receiver<IoRequest>>) -> Option<IoRequest> {
    // Nothing that is done under this lock panics.
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Has a worker perform the requests, which another thread may use meanwhile.
fn by(worker: Worker) -> impl FnMut(IoRequest) -> IoDone {
    move |request| worker.lock().unwrap_or_else(PoisonError::into_inner).perform(request)
}

impl Drop for DiskThreadHandle {
    fn drop(&mut self) {
        self.requests = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                error!("a disk thread has panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests;
