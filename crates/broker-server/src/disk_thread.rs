//! The disk: records are written by a thread of its own while the node has other work, and at once when it has none;
//! files are prepared and deleted by another thread, so that no record waits for that.
//!
//! Invariant: the journal has at most one write and one other request outstanding, so each kind keeps its order.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
};

use broker_log::{DiskWorker, IoDone, IoRequest, RealDisk};
use tracing::error;

use crate::inbox::{Inbox, Item};

/// Where the node takes its disk work.
#[derive(Debug)]
pub(crate) struct DiskThread {
    writes: Lane,
    others: Lane,
    worker: Worker,
}

/// One thread and the way to it. Dropped, it ends and is waited for, so that the next broker may have the folder.
#[derive(Debug)]
struct Lane {
    requests: Option<SyncSender<IoRequest>>,
    thread: Option<JoinHandle<()>>,
}

type Worker = Arc<Mutex<DiskWorker<Arc<RealDisk>>>>;

/// The journal asks for at most one write and a little background work at a time.
const REQUESTS_MAX: usize = 16;
/// A write up to this size, in bytes, is soon done: waiting for it costs less than two changes of thread.
const AT_ONCE_BYTES_MAX: u64 = 64 << 10;

impl DiskThread {
    /// Starts the threads; they have ended when this is dropped.
    pub(crate) fn start(disk: Arc<RealDisk>, inbox: &Arc<Inbox>) -> io::Result<Self> {
        let worker = Arc::new(Mutex::new(DiskWorker::new(Arc::clone(&disk))));
        let writes = Lane::start("journal", Arc::clone(&worker), Arc::clone(inbox))?;
        let others = Lane::start("files", Arc::new(Mutex::new(DiskWorker::new(disk))), Arc::clone(inbox))?;
        Ok(Self { writes, others, worker })
    }

    /// Performs `request`: at once if the node has nothing else to do (`idle`) and the disk is free, else on the
    /// thread, which reports to the inbox.
    pub(crate) fn perform(&self, request: IoRequest, idle: bool) -> Option<IoDone> {
        if !request.is_write() {
            self.others.give(request);
            return None;
        }
        if idle
            && request.bytes() <= AT_ONCE_BYTES_MAX
            && let Ok(mut worker) = self.worker.try_lock()
        {
            return Some(worker.perform(request));
        }
        self.writes.give(request);
        None
    }
}

impl Lane {
    fn start(name: &str, worker: Worker, inbox: Arc<Inbox>) -> io::Result<Self> {
        let (requests, waiting) = mpsc::sync_channel::<IoRequest>(REQUESTS_MAX);
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            for request in waiting {
                let done = worker.lock().unwrap_or_else(PoisonError::into_inner).perform(request);
                inbox.push(Item::Io(done));
            }
        })?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    fn give(&self, request: IoRequest) {
        if self.requests.as_ref().is_none_or(|requests| requests.send(request).is_err()) {
            error!("a disk thread is gone");
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            error!("a disk thread has panicked");
        }
    }
}
