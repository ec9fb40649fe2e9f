//! The disk: a small write is performed at once by whoever runs the node, as long as nobody else waits and the disk is
//! quick; other writes by a thread of their own; files are prepared and deleted by another, so that no record waits.
//!
//! Invariant: the journal has at most one write and one other request outstanding, so each kind keeps its order.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use broker_log::{DiskWorker, IoDone, IoRequest, RealDisk};
use tracing::error;

use crate::{
    clock,
    inbox::{Inbox, Item},
};

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

type Worker = Arc<Mutex<Performer>>;

/// Performs requests, and knows how long that takes.
#[derive(Debug)]
struct Performer {
    worker: DiskWorker<Arc<RealDisk>>,
    /// Whether the last request was soon done.
    is_quick: bool,
}

impl Performer {
    fn on(disk: Arc<RealDisk>) -> Worker {
        Arc::new(Mutex::new(Self { worker: DiskWorker::new(disk), is_quick: true }))
    }

    fn perform(&mut self, request: IoRequest) -> IoDone {
        let begin = clock::instant();
        let done = self.worker.perform(request);
        self.is_quick = clock::instant().saturating_duration_since(begin) < QUICK;
        done
    }
}

/// The journal asks for at most one write and a little background work at a time.
const REQUESTS_MAX: usize = 16;
/// A write up to this size, in bytes, is that of a sender who waits for each message: for him, waiting costs less than
/// two changes of thread. One who goes on sending is read meanwhile.
const AT_ONCE_BYTES_MAX: u64 = 8 << 10;
/// While requests take longer, no connection's thread waits for one.
const QUICK: Duration = Duration::from_millis(2);

impl DiskThread {
    /// Starts the threads; they have ended when this is dropped.
    pub(crate) fn start(disk: Arc<RealDisk>, inbox: &Arc<Inbox>) -> io::Result<Self> {
        let worker = Performer::on(Arc::clone(&disk));
        let writes = Lane::start("journal", Arc::clone(&worker), Arc::clone(inbox))?;
        let others = Lane::start("files", Performer::on(disk), Arc::clone(inbox))?;
        Ok(Self { writes, others, worker })
    }

    /// Performs `request`: at once if it is small, the one who runs the node is `alone` and the disk is free and quick;
    /// else on the thread, which reports to the inbox.
    pub(crate) fn perform(&self, request: IoRequest, alone: impl Fn() -> bool) -> Option<IoDone> {
        if !request.is_write() {
            self.others.give(request);
            return None;
        }
        if request.bytes() <= AT_ONCE_BYTES_MAX
            && let Ok(mut worker) = self.worker.try_lock()
            && worker.is_quick
            && alone()
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

#[cfg(test)]
mod tests;
