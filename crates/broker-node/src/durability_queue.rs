//! Durability queue: effects that wait for the records that they depend on.
//!
//! Invariant: effects come out in the order they went in, each only when the journal is durable up to its position.

use std::collections::VecDeque;

use broker_log::Position;

use crate::Released;

/// Effects of one round, and the journal position that they depend on.
#[derive(Debug)]
struct PendingRound {
    until: Position,
    effects: Vec<Released>,
}

/// The queue of rounds not yet released.
#[derive(Debug, Default)]
pub(crate) struct DurabilityQueue {
    rounds: VecDeque<PendingRound>,
}

impl DurabilityQueue {
    /// Keeps `effects` until the journal is durable up to `until`. Positions never go back.
    pub(crate) fn push(&mut self, until: Position, effects: Vec<Released>) {
        debug_assert!(self.rounds.back().is_none_or(|last| last.until <= until), "positions only grow");
        self.rounds.push_back(PendingRound { until, effects });
    }

    /// The oldest round, if the journal is durable far enough for it.
    pub(crate) fn pop(&mut self, durable: Position) -> Option<Vec<Released>> {
        if self.rounds.front()?.until > durable {
            return None;
        }
        self.rounds.pop_front().map(|round| round.effects)
    }

    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }
}

#[cfg(test)]
mod tests;
