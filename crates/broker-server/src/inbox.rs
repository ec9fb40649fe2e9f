//! What waits for the node, and who runs it: whoever brings something while nobody does.
//!
//! Invariant: what was brought is handled without anybody coming again; two never run the node at the same time.

use std::{
    cell::Cell,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use broker_core::{Batch, ClientId, Timestamp};
use broker_log::IoDone;
use tokio::sync::oneshot;
use tracing::error;

use crate::{
    clock::{self, Clock},
    in_flight::InFlight,
    mailbox::Mailbox,
    meters::Meters,
    runner::{Ended, NodeView, Runner},
};

/// One thing for the node to do.
#[derive(Debug)]
pub(crate) enum Item {
    /// A connection begins; its effects go to this mailbox.
    Register(ClientId, Arc<Mailbox>),
    /// Commands of a connection, and what they weigh in its in-flight account (bytes).
    Batch(Batch, usize),
    /// A connection is over: no more batches, nobody reads its mailbox.
    Forget(ClientId),
    /// A piece of disk work is done.
    Io(IoDone),
    /// Nothing has happened for a while.
    Quiet,
    /// Move the broker's time forward, and answer with it once what has become due is done; `None` is too far.
    Advance(Duration, oneshot::Sender<Option<Timestamp>>),
    /// Say how things are.
    Look(oneshot::Sender<NodeView>),
    /// Make everything durable and stop.
    Stop,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Turn {
    /// Nobody runs the node: who brings something does.
    #[default]
    Free,
    /// Somebody runs it, and will look here again before leaving.
    Taken,
    /// It has ended.
    Over(Ended),
}

#[derive(Debug, Default)]
struct Desk {
    items: Vec<Item>,
    /// Since when the first of them waits; `None`: it does not.
    waiting_since: Option<Instant>,
    turn: Turn,
    /// Something is to be done that nobody is about to do.
    left_over: bool,
    /// When the node has something to do by itself.
    deadline: Option<Timestamp>,
    /// When to look whether things are quiet; `None`: they are, and the node knows.
    look_at: Option<Timestamp>,
    /// Something came since the last look.
    stirred: bool,
    /// Until when the caretaker sleeps, if it does.
    asleep_until: Option<Timestamp>,
}

impl Desk {
    /// Finds out whether things are quiet.
    fn look_around(&mut self, now: Timestamp) {
        if self.look_at.is_some_and(|at| now < at) {
            return;
        }
        if self.stirred {
            self.stirred = false;
            self.look_at = Some(now.after(QUIET));
        } else if self.look_at.take().is_some() {
            self.items.push(Item::Quiet);
            self.left_over = true;
        }
    }

    /// Whether the caretaker has something to do.
    fn is_due(&self, now: Timestamp) -> bool {
        self.turn == Turn::Free && (self.left_over || self.deadline.is_some_and(|deadline| deadline <= now))
    }

    /// When the caretaker wants to wake by itself. While somebody runs the node, its deadline will be set anew.
    fn alarm(&self) -> Option<Timestamp> {
        let deadline = self.deadline.filter(|_| self.turn == Turn::Free);
        deadline.into_iter().chain(self.look_at).min()
    }

    /// Whether the caretaker sleeps too long, now that somebody has left the node.
    fn is_oversleeping(&self) -> bool {
        let quiet_is_over = self.look_at.is_none() && self.stirred;
        self.asleep_until.is_some_and(|until| {
            self.left_over || quiet_is_over || self.deadline.is_some_and(|deadline| deadline < until)
        })
    }
}

/// The node's only input, and the right to run it.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    clock: Arc<Clock>,
    meters: Arc<Meters>,
    desk: Mutex<Desk>,
    /// Calls the caretaker.
    call: Condvar,
    in_flight: Arc<InFlight>,
    /// Batches that AMQP connections have brought.
    traffic: AtomicU64,
    /// Locked by the one whose turn it is; `None` before it begins and after it has ended.
    node: Mutex<Option<Runner>>,
}

impl Inbox {
    /// Nothing waits yet; the node's time is that of `clock`. All connections together may have so many bytes of commands
    /// waiting.
    pub(crate) fn new(clock: Arc<Clock>, max_in_flight_bytes: usize) -> Self {
        Self { clock, in_flight: Arc::new(InFlight::new(max_in_flight_bytes)), ..Self::default() }
    }

    /// A mailbox for one who brings commands.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(Arc::clone(&self.in_flight)))
    }

    /// An AMQP connection brings a batch.
    pub(crate) fn note_traffic(&self) {
        self.traffic.fetch_add(1, Ordering::Relaxed);
    }

    /// Batches that AMQP connections have brought so far.
    pub(crate) fn traffic(&self) -> u64 {
        self.traffic.load(Ordering::Relaxed)
    }

    /// Puts the node in its place. What was brought before waits for [`Self::take_care`].
    pub(crate) fn begin(&self, runner: Runner) {
        *self.node() = Some(runner);
        let mut desk = self.desk();
        desk.turn = Turn::Free;
        // What recovery has left to do.
        desk.left_over = true;
    }

    /// Brings one item: runs the node, unless somebody does already, who will take it along.
    pub(crate) fn push(&self, item: Item) {
        self.bring(item, TURNS_MAX);
    }

    /// Brings what a disk thread has done. It takes one turn, in which it may be given its next request: what others
    /// bring meanwhile is not handled while that request waits for its only thread.
    pub(crate) fn report(&self, done: IoDone) {
        self.bring(Item::Io(done), 1);
    }

    fn bring(&self, item: Item, turns: u32) {
        let mut desk = self.desk();
        if matches!(desk.turn, Turn::Over(_)) {
            return;
        }
        if matches!(item, Item::Advance(..)) {
            // However long it meant to sleep, it was by the time before.
            desk.asleep_until = desk.asleep_until.map(|_| FOR_EVER);
        }
        if desk.turn == Turn::Taken && desk.items.is_empty() {
            desk.waiting_since = Some(clock::instant());
        }
        desk.items.push(item);
        desk.stirred = true;
        if desk.turn == Turn::Free {
            self.run(desk, turns);
        }
    }

    /// Runs the node when nobody comes whose work would do it: at its deadlines, and with what was left over. It wants
    /// a thread of its own, and returns when the node has ended and is gone with its files.
    pub(crate) fn take_care(&self) -> Ended {
        let ended = catch_unwind(AssertUnwindSafe(|| self.watch())).unwrap_or_else(|_| {
            self.fail();
            Ended::Panicked
        });
        drop(self.node().take());
        ended
    }

    /// Waits and runs the node in turn, to its end.
    fn watch(&self) -> Ended {
        let mut desk = self.desk();
        loop {
            let now = self.clock.utc();
            desk.look_around(now);
            if let Turn::Over(ended) = desk.turn {
                return ended;
            }
            if desk.is_due(now) {
                self.run(desk, TURNS_MAX);
                desk = self.desk();
            } else {
                desk = self.sleep(desk, now);
            }
        }
    }

    /// Sleeps until called or until the next alarm.
    fn sleep<'a>(&'a self, mut desk: MutexGuard<'a, Desk>, now: Timestamp) -> MutexGuard<'a, Desk> {
        let alarm = desk.alarm();
        desk.asleep_until = Some(alarm.unwrap_or(FOR_EVER));
        let mut desk = if let Some(alarm) = alarm {
            let patience = Duration::from_millis(alarm.as_millis().saturating_sub(now.as_millis()));
            self.call.wait_timeout(desk, patience).unwrap_or_else(PoisonError::into_inner).0
        } else {
            self.call.wait(desk).unwrap_or_else(PoisonError::into_inner)
        };
        desk.asleep_until = None;
        desk
    }

    /// Takes turns with the node until nothing waits, or for long enough.
    fn run(&self, mut desk: MutexGuard<'_, Desk>, turns: u32) {
        desk.turn = Turn::Taken;
        desk.left_over = false;
        drop(desk);
        // Whoever brought something did nothing wrong, and is told like everybody else.
        let work = AssertUnwindSafe(|| {
            if let Some(runner) = self.node().as_mut() {
                self.take_turns(runner, turns);
            }
        });
        if catch_unwind(work).is_err() {
            self.fail();
        }
    }

    /// Ends the node for everybody after a panic in it, or in what works for it: its state may be anything, and nobody
    /// must wait for it for ever.
    pub(crate) fn fail(&self) {
        error!("the broker has panicked, see above; nothing more is accepted, restart to recover");
        self.end(self.desk(), Ended::Panicked);
    }

    fn take_turns(&self, runner: &mut Runner, turns: u32) {
        let mut items = Vec::new();
        // One write may be waited for, if nobody has come meanwhile; then others have their turn.
        let waited = Cell::new(false);
        let may_wait = || !waited.get() && self.desk().items.is_empty() && !waited.replace(true);
        for turn in 1.. {
            let queued = self.take_items(&mut items);
            let ended = runner.turn(&mut items, queued, may_wait);
            let mut desk = self.desk();
            if matches!(desk.turn, Turn::Over(_)) {
                return;
            }
            if let Some(ended) = ended {
                return self.end(desk, ended);
            }
            let waits = runner.has_more() || !desk.items.is_empty();
            if !waits || turn == turns {
                desk.turn = Turn::Free;
                desk.left_over = waits;
                desk.deadline = runner.deadline();
                let call = desk.is_oversleeping();
                drop(desk);
                if call {
                    self.call.notify_one();
                }
                return;
            }
        }
    }

    /// Takes what waits, and says how long the first of it did.
    fn take_items(&self, items: &mut Vec<Item>) -> Duration {
        let mut desk = self.desk();
        mem::swap(items, &mut desk.items);
        let since = desk.waiting_since.take();
        drop(desk);
        let waited = since.map_or(Duration::ZERO, |since| clock::instant().saturating_duration_since(since));
        if !items.is_empty() {
            self.meters.queue_time.observe(waited.as_secs_f64());
        }
        waited
    }

    /// Where the node, and whoever serves it, notes what it measures.
    pub(crate) fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Whether the node has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.desk().turn, Turn::Over(_))
    }

    /// The node has ended.
    fn end(&self, mut desk: MutexGuard<'_, Desk>, ended: Ended) {
        desk.turn = Turn::Over(ended);
        desk.items.clear();
        drop(desk);
        self.call.notify_one();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing that is done under this lock panics.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self) -> MutexGuard<'_, Option<Runner>> {
        // After a panic nobody runs it any more: see `fail`.
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns of one who came with work of his own; the rest is left to the caretaker.
const TURNS_MAX: u32 = 64;
/// Time without anything to do after which things are quiet; it passes twice at the most.
const QUIET: Duration = Duration::from_millis(50);
/// An alarm that does not ring.
const FOR_EVER: Timestamp = Timestamp::MAX;

#[cfg(test)]
mod tests;
