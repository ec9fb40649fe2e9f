//! The disk: on a thread of its own while there is other work, at once when there is none.
//!
//! Invariant: requests are performed one at a time; the journal has at most one write outstanding.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread,
};

use broker_log::{DiskWorker, IoDone, IoRequest, RealDisk};
use tracing::error;

use crate::inbox::{Inbox, Item};

/// Where the node takes its disk work.
#[derive(Debug)]
pub(crate) struct DiskThread {
    requests: SyncSender<IoRequest>,
    worker: Arc<Mutex<DiskWorker<Arc<RealDisk>>>>,
}

/// The journal asks for at most one write and a little background work at a time.
const REQUESTS_MAX: usize = 16;
/// A write up to this size, in bytes, is soon done: waiting for it costs less than two changes of thread.
const AT_ONCE_BYTES_MAX: u64 = 64 << 10;

impl DiskThread {
    /// Starts the thread; it ends when this is dropped.
    pub(crate) fn start(disk: Arc<RealDisk>, inbox: Arc<Inbox>) -> io::Result<Self> {
        let worker = Arc::new(Mutex::new(DiskWorker::new(disk)));
        let (requests, waiting) = mpsc::sync_channel::<IoRequest>(REQUESTS_MAX);
        let shared = Arc::clone(&worker);
        thread::Builder::new().name("journal".into()).spawn(move || {
            for request in waiting {
                let done = shared.lock().unwrap_or_else(PoisonError::into_inner).perform(request);
                inbox.push(Item::Io(done));
            }
        })?;
        Ok(Self { requests, worker })
    }

    /// Performs `request`: at once if the node has nothing else to do (`idle`) and the disk is free, else on the
    /// thread, which reports to the inbox.
    pub(crate) fn perform(&self, request: IoRequest, idle: bool) -> Option<IoDone> {
        if idle
            && request.is_write()
            && request.bytes() <= AT_ONCE_BYTES_MAX
            && let Ok(mut worker) = self.worker.try_lock()
        {
            return Some(worker.perform(request));
        }
        if self.requests.send(request).is_err() {
            error!("the journal thread is gone");
        }
        None
    }
}
