//! I/O threads for connections, each with a runtime of its own.
//!
//! Invariant: a connection stays on the thread it began on, so nothing of it ever crosses to another.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};
use tracing::error;

use crate::handshake_turns::HandshakeTurns;

/// All of them. Dropped, they end, and what they served is dropped with them.
#[derive(Debug)]
pub(crate) struct Threads {
    spawner: Spawner,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct Thread {
    /// Dropped, it ends the thread.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Gives the threads something to serve; it does not keep them alive.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Arc<[ThreadHandle]>);

/// The way to one thread.
#[derive(Debug)]
struct ThreadHandle {
    runtime: Handle,
    /// Futures it serves.
    serves: Arc<AtomicUsize>,
    handshakes: Arc<HandshakeTurns>,
}

impl Threads {
    /// Starts `count` of them, at least one.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let started = (0..count.max(1)).map(|_| Thread::start()).collect::<io::Result<Vec<_>>>()?;
        let (threads, lanes): (Vec<_>, Vec<_>) = started.into_iter().unzip();
        Ok(Self { spawner: Spawner(lanes.into()), threads })
    }

    /// The way to them.
    pub(crate) fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }
}

impl Spawner {
    /// Comes back when each thread has given a turn to every future that was woken on it from another thread before.
    pub(crate) async fn pass(&self) {
        for lane in self.0.iter() {
            // A thread that has ended serves nothing: then there is nothing to wait for.
            lane.runtime.spawn(async {}).await.ok();
        }
    }

    /// Has the thread that serves the fewest serve one more, whose TLS handshake takes its turns among those of the thread.
    pub(crate) fn spawn<F>(&self, make: impl FnOnce(Arc<HandshakeTurns>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(lane) = self.0.iter().min_by_key(|lane| lane.serves.load(Ordering::Relaxed)) else { return };
        let place = CountGuard::take(&lane.serves);
        // Boxed here, for a future that captures another holds it twice.
        let future = Box::pin(make(Arc::clone(&lane.handshakes)));
        // The handle is dropped: the task ends by itself, and no other task waits for it.
        drop(lane.runtime.spawn(async move {
            future.await;
            drop(place);
        }));
    }
}

impl Thread {
    fn start() -> io::Result<(Self, ThreadHandle)> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .global_queue_interval(OTHERS_EVERY)
            .event_interval(LOOK_EVERY)
            .build()?;
        let lane = ThreadHandle {
            runtime: runtime.handle().clone(),
            serves: Arc::default(),
            handshakes: Arc::default(),
        };
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("connections".into()).spawn(move || {
            // Nothing is ever sent: the sender is dropped.
            drop(runtime.block_on(ended));
        })?;
        Ok((Self { end: Some(end), thread: Some(thread) }, lane))
    }
}

/// Each so many turns of tasks, one is of those that another thread has brought or called, however many of this one are ready. Among
/// them are new connections, and all to which a node has brought something on another thread: with tokio's own 31 they would wait for as
/// many turns of connections whose clients send without a pause.
const OTHERS_EVERY: u32 = 2;
/// Turns of tasks between two looks at the sockets, while tasks are ready. A turn of a busy connection lasts for a millisecond at most, so
/// with tokio's own 61 a connection that has received something would wait for that many of them.
const LOOK_EVERY: u32 = 8;

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.end = None;
        }
        for thread in &mut self.threads {
            if thread.thread.take().is_some_and(|thread| thread.join().is_err()) {
                error!("a thread that serves connections has panicked");
            }
        }
    }
}

/// Counts something for as long as it lives.
#[derive(Debug)]
pub(crate) struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    /// Counts one more.
    pub(crate) fn take(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }

    /// Counts one more, unless there are `limit` already.
    pub(crate) fn take_below(count: &Arc<AtomicUsize>, limit: usize) -> Option<Self> {
        let one_more = |taken: usize| (taken < limit).then_some(taken + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
