//! The thread that waits for the disk.
//!
//! Invariant: requests are performed one at a time, in the order they were given.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use broker_log::{Disk, DiskWorker, IoRequest};

use crate::inbox::{Inbox, Item};

/// Starts the thread; it ends when the sender is dropped.
pub(crate) fn start<D: Disk + Send + 'static>(
    mut worker: DiskWorker<D>,
    inbox: Arc<Inbox>,
) -> std::io::Result<(mpsc::SyncSender<IoRequest>, JoinHandle<()>)> {
    let (requests, waiting) = mpsc::sync_channel::<IoRequest>(REQUESTS_MAX);
    let thread = thread::Builder::new().name("journal".into()).spawn(move || {
        for request in waiting {
            inbox.push(Item::Io(worker.perform(request)));
        }
    })?;
    Ok((requests, thread))
}

/// The journal asks for at most one write and a little background work at a time.
const REQUESTS_MAX: usize = 16;
