//! Outcomes of received deliveries that go out later than they are known.
//!
//! Invariant: they leave in the order in which they came, none before its time unless the queue is full or the peer
//! ends what it belongs to.

use std::{collections::VecDeque, time::Instant};

use amqp_codec::performative::DeliveryState;

use crate::config::MAX_DELAYED_OUTCOMES;
use crate::ids::{DeliveryId, SessionId};

/// An outcome and the delivery that it settles.
#[derive(Debug)]
pub(crate) struct DelayedOutcome {
    pub(crate) due: Instant,
    pub(crate) session: SessionId,
    pub(crate) delivery: DeliveryId,
    pub(crate) state: DeliveryState,
}

/// The outcomes of one connection that wait.
#[derive(Debug, Default)]
pub(crate) struct DelayedOutcomes {
    /// In the order of `due`.
    waiting: VecDeque<DelayedOutcome>,
}

/// Room for so many outcomes is kept when none waits.
const KEEP_OUTCOMES: usize = 16;

impl DelayedOutcomes {
    /// Adds one. Gives the oldest when there are more than [`MAX_DELAYED_OUTCOMES`].
    pub(crate) fn push(&mut self, mut outcome: DelayedOutcome) -> Option<DelayedOutcome> {
        if let Some(last) = self.waiting.back() {
            outcome.due = outcome.due.max(last.due);
        }
        self.waiting.push_back(outcome);
        if self.waiting.len() > MAX_DELAYED_OUTCOMES { self.waiting.pop_front() } else { None }
    }

    /// Due time of the oldest.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Some(self.waiting.front()?.due)
    }

    /// The oldest, if it is due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<DelayedOutcome> {
        if self.deadline()? > now {
            return None;
        }
        let outcome = self.waiting.pop_front();
        if self.waiting.is_empty() && self.waiting.capacity() > KEEP_OUTCOMES {
            self.waiting = VecDeque::new();
        }
        outcome
    }

    /// Those of a session whose delivery is one that `wanted` says, due or not.
    pub(crate) fn take_of(
        &mut self,
        session: SessionId,
        wanted: impl Fn(DeliveryId) -> bool,
    ) -> VecDeque<DelayedOutcome> {
        let all = std::mem::take(&mut self.waiting);
        let (taken, waiting) =
            all.into_iter().partition(|outcome| outcome.session == session && wanted(outcome.delivery));
        self.waiting = waiting;
        taken
    }

    /// All of them, due or not.
    pub(crate) fn take_all(&mut self) -> VecDeque<DelayedOutcome> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
