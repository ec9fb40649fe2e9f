//! Turn of a connection on its thread, which it shares with others.
//!
//! Invariant: a turn ends with the first step that begins or ends [`TURN`] after it, or [`SHARED_TURN`] where there are several namespaces. Steps
//! end by work, which is given so that it lasts for [`STEP`]: only a single frame that costs more makes a step longer. Output is written
//! in pieces, and a turn ends with the first piece that ends after its time.

use std::time::{Duration, Instant};

use broker_core::{Work, WorkBudget};

use crate::{transport::WRITE_SOFT_LIMIT, work_pace::WorkPace};

/// Longest time of a turn, but for its last step.
const TURN: Duration = Duration::from_millis(1);
/// The same where the broker has several namespaces: another one waits for it to be read and to be answered, and the node for what one turn
/// has submitted, also if it was on another thread.
const SHARED_TURN: Duration = Duration::from_micros(250);
/// Bytes of output that are written at once where the broker has several namespaces. The kernel takes up to 0.2 ms for them, and 0.8 ms for
/// [`WRITE_SOFT_LIMIT`].
const SHARED_OUTPUT_LIMIT: usize = 64 << 10;
/// Time that the work of one step is to take: a turn misses its end by no more.
const STEP: Duration = Duration::from_micros(100);

/// Turn of one connection, or the time between two.
#[derive(Debug)]
pub(super) struct ConnectionTurn {
    pace: WorkPace,
    /// `None`: between two turns.
    began: Option<Instant>,
    is_over: bool,
    has_output_left: bool,
    /// Its longest time.
    length: Duration,
    /// Work that the connection's namespace was told of.
    counted: Work,
}

impl ConnectionTurn {
    /// The first has not begun.
    pub(super) const fn new() -> Self {
        Self {
            pace: WorkPace::new(STEP),
            began: None,
            is_over: false,
            has_output_left: false,
            length: TURN,
            counted: Work(0),
        }
    }

    /// Whether the turn is one among those of several namespaces, and so a short one.
    pub(super) const fn share(&mut self, is_shared: bool) {
        self.length = if is_shared { SHARED_TURN } else { TURN };
    }

    /// The connection has something to do at `now`: a turn begins, or goes on.
    pub(super) fn step(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        self.is_over = now.saturating_duration_since(began) >= self.length;
    }

    /// Output is built and written. Says after how many bytes of it the clock is read again.
    pub(super) fn begin_output(&mut self) -> usize {
        self.has_output_left = false;
        if self.length < TURN { SHARED_OUTPUT_LIMIT } else { WRITE_SOFT_LIMIT }
    }

    /// So many bytes were written at `now`. Says whether the turn goes on; else output is left for the next one.
    pub(super) fn goes_on_with_output(&mut self, now: Instant) -> bool {
        self.step(now);
        self.has_output_left = self.is_over;
        !self.is_over
    }

    /// Whether the turn has ended before all output was built.
    pub(super) const fn has_output_left(&self) -> bool {
        self.has_output_left
    }

    /// Work that may be done until the clock is read again.
    pub(super) const fn budget(&self) -> WorkBudget {
        self.pace.budget()
    }

    /// A budget was spent: so much was done between two times. Says whether the turn goes on.
    pub(super) fn goes_on(&mut self, done: Work, (from, now): (Instant, Instant)) -> bool {
        self.pace.note(done, now.saturating_duration_since(from));
        self.step(now);
        !self.is_over
    }

    /// Work that was done since the last call, of which the namespace is told now. `done` is all that was ever done.
    pub(super) const fn take_uncounted(&mut self, done: Work) -> Work {
        let more = done.0 - self.counted.0;
        self.counted = done;
        Work(more)
    }

    /// Whether other connections are to have their turns.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// The connection rests, or has let others have their turns.
    pub(super) const fn end(&mut self) {
        self.began = None;
        self.is_over = false;
    }
}

#[cfg(test)]
mod tests;
