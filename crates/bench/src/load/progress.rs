//! State shared by the threads of a run: counts, whether to measure, when to stop, and failures.
//!
//! Invariant: every wait ends: by what was waited for, by its limit, or by the failure of a thread.

use std::ops::{Range, Sub};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::TICK;
use crate::Fallible;

/// Messages so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) acknowledged: u64,
    pub(crate) received: u64,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            acknowledged: self.acknowledged - earlier.acknowledged,
            received: self.received - earlier.received,
        }
    }
}

/// The measured part of a run, in nanoseconds since the epoch. The time of a message counts where the message was due in it,
/// whenever its answer comes: a broker that stands still at the end shows, too.
#[derive(Debug)]
pub(super) struct MeasuredPart {
    from: AtomicU64,
    until: AtomicU64,
}

impl Default for MeasuredPart {
    /// It has not begun.
    fn default() -> Self {
        Self { from: AtomicU64::new(u64::MAX), until: AtomicU64::new(u64::MAX) }
    }
}

impl MeasuredPart {
    pub(super) fn begin(&self, now: u64) {
        self.from.store(now, Ordering::Relaxed);
    }

    pub(super) fn end(&self, now: u64) {
        self.until.store(now, Ordering::Relaxed);
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.from.load(Ordering::Relaxed)..self.until.load(Ordering::Relaxed)
    }
}

/// Shared by the threads of one run. All orderings are relaxed: each field stands for itself, and counts that are a few
/// microseconds old are good enough for all who read them.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Stamps count from here.
    pub(super) epoch: Instant,
    sent: AtomicU64,
    acknowledged: AtomicU64,
    received: AtomicU64,
    measured: MeasuredPart,
    sending_is_over: AtomicBool,
    is_over: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            sent: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            received: AtomicU64::new(0),
            measured: MeasuredPart::default(),
            sending_is_over: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// Nanoseconds since the epoch.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.load(Ordering::Relaxed),
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
        }
    }

    pub(super) fn sent(&self, messages: u64) {
        self.sent.fetch_add(messages, Ordering::Relaxed);
    }

    pub(super) fn acknowledged(&self, messages: u64) {
        self.acknowledged.fetch_add(messages, Ordering::Relaxed);
    }

    pub(super) fn received(&self, messages: u64) {
        self.received.fetch_add(messages, Ordering::Relaxed);
    }

    /// The measured part of the run.
    pub(super) fn measured(&self) -> &MeasuredPart {
        &self.measured
    }

    pub(super) fn stop_sending(&self) {
        self.sending_is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_send(&self) -> bool {
        !self.sending_is_over.load(Ordering::Relaxed)
    }

    /// Ends the threads.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Runs the work of a thread; its failure ends the waits of the others.
    pub(super) fn guard(&self, work: impl FnOnce() -> Fallible<()>) -> Fallible<()> {
        let end = work();
        if let Err(error) = &end {
            self.failure().get_or_insert_with(|| error.to_string());
        }
        end
    }

    /// Waits for a time.
    pub(crate) fn wait(&self, time: Duration) -> Fallible<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(TICK * 10));
        }
    }

    /// Waits until the counts fit.
    pub(crate) fn until(&self, limit: Duration, fits: impl Fn(Counts) -> bool) -> Fallible<()> {
        let begin = Instant::now();
        while !fits(self.counts()) {
            self.check()?;
            if begin.elapsed() > limit {
                let Counts { sent, acknowledged, received } = self.counts();
                return Err(format!(
                    "after {} s: {sent} sent, {acknowledged} acknowledged, {received} received",
                    limit.as_secs()
                )
                .into());
            }
            thread::sleep(TICK);
        }
        Ok(())
    }

    fn check(&self) -> Fallible<()> {
        self.failure().as_ref().map_or(Ok(()), |reason| Err(reason.clone().into()))
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
