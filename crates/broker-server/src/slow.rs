//! Operations that take long: from the arrival of a command to the moment when its effects may leave.
//!
//! What is measured is a turn of the node, by the command that began it: it waited longest. Two looks at the clock for
//! each turn are all that this costs.
//!
//! Invariant: at most one line is written in [`PAUSE`], and what is remembered is bounded.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use broker_core::{Batch, Command, EntityPath, QueueId};
use broker_log::Position;
use tracing::warn;

/// Turns whose records are not durable yet that are remembered; later ones share the fate of these.
const TURNS_MAX: usize = 1_024;
/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// What a command works on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// A store.
    Queue(QueueId),
    /// What the client named.
    Name(Box<str>),
    /// Nothing of its own.
    Nowhere,
}

/// A turn that is not over for those who wait for it.
#[derive(Debug)]
struct Turn {
    /// Its effects leave when the journal is durable up to here.
    until: Position,
    began: Instant,
    waited: Duration,
    operation: &'static str,
    place: Place,
    /// Commands of its first batch.
    commands: usize,
}

/// A turn that took too long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SlowTurn {
    pub(crate) operation: &'static str,
    pub(crate) place: Place,
    pub(crate) commands: usize,
    /// From the arrival of the command on.
    pub(crate) took: Duration,
    /// Of that, before its turn came.
    pub(crate) waited: Duration,
    /// Others that were not told of.
    pub(crate) others: u64,
}

/// Watches the turns.
#[derive(Debug)]
pub(crate) struct Slow {
    threshold: Duration,
    /// What began the turn that runs.
    first: Option<(&'static str, Place, usize)>,
    turns: VecDeque<Turn>,
    told_at: Option<Instant>,
    others: u64,
}

impl Slow {
    pub(crate) const fn new(threshold: Duration) -> Self {
        Self { threshold, first: None, turns: VecDeque::new(), told_at: None, others: 0 }
    }

    /// A batch is handled; the first of a turn is remembered.
    pub(crate) fn handles(&mut self, batch: &Batch) {
        if self.first.is_none()
            && let Some(command) = batch.commands.iter().find_map(named)
        {
            self.first = Some((command.0, command.1, batch.commands.len()));
        }
    }

    /// A turn is done that began then, after its first command had waited; its effects leave when the journal is durable
    /// up to `until`.
    pub(crate) fn turned(&mut self, began: Instant, waited: Duration, until: Position) {
        let Some((operation, place, commands)) = self.first.take() else { return };
        if self.turns.len() < TURNS_MAX {
            self.turns.push_back(Turn { until, began, waited, operation, place, commands });
        }
    }

    /// Whether a turn waits for the disk.
    pub(crate) fn waits(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The journal is durable up to `durable`, at `now`. Gives a turn that took too long, if one is to be told of.
    pub(crate) fn durable(&mut self, durable: Position, now: Instant) -> Option<SlowTurn> {
        let mut slowest: Option<SlowTurn> = None;
        while self.turns.front().is_some_and(|turn| turn.until <= durable)
            && let Some(turn) = self.turns.pop_front()
        {
            let took = turn.waited + now.saturating_duration_since(turn.began);
            if took <= self.threshold {
                continue;
            }
            self.others += 1;
            if slowest.as_ref().is_none_or(|slowest| slowest.took < took) {
                let Turn { operation, place, commands, waited, .. } = turn;
                slowest = Some(SlowTurn { operation, place, commands, took, waited, others: 0 });
            }
        }
        let mut slowest = slowest?;
        if self.told_at.is_some_and(|at| now.saturating_duration_since(at) < PAUSE) {
            return None;
        }
        self.told_at = Some(now);
        slowest.others = std::mem::take(&mut self.others) - 1;
        Some(slowest)
    }
}

impl SlowTurn {
    /// Writes the line; `entity` is what the place is called.
    pub(crate) fn write(&self, entity: &str) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (took_ms, queued_ms) = (millis(self.took), millis(self.waited));
        let Self { operation, commands, others, .. } = self;
        warn!(target: "ferrybus::slow", operation, entity, took_ms, queued_ms, commands, others, "slow operation");
    }
}

/// What the log calls a command, and where it works. What nobody waits for has no name.
fn named(command: &Command) -> Option<(&'static str, Place)> {
    let by_path = |path: &EntityPath| Place::Name(path.entity.clone());
    Some(match command {
        Command::Publish { queue, .. } | Command::PublishBatch { queue, .. } => {
            ("publish", Place::Queue(*queue))
        }
        Command::PublishTo { path, .. } => ("publish", by_path(path)),
        Command::Settle { queue, .. } => ("settle", Place::Queue(*queue)),
        Command::SettleByToken { path, .. } => ("settle", by_path(path)),
        Command::OfKind(_, command) => return named(command),
        Command::OpenProducer { path, .. } | Command::OpenConsumer { path, .. } => ("attach", by_path(path)),
        Command::Schedule { path, .. } => ("schedule", by_path(path)),
        Command::CancelScheduled { path, .. } => ("cancel-scheduled", by_path(path)),
        Command::Peek { path, .. } => ("peek", by_path(path)),
        Command::ReceiveDeferred { path, .. } => ("receive-deferred", by_path(path)),
        Command::DeleteMessages { path, .. } => ("purge", by_path(path)),
        Command::RenewLocks { path, .. } => ("renew-locks", by_path(path)),
        Command::RenewSession { path, .. } => ("renew-session", by_path(path)),
        Command::SetSessionState { path, .. } => ("set-session-state", by_path(path)),
        Command::GetSessionState { path, .. } => ("get-session-state", by_path(path)),
        Command::ListSessions { path, .. } => ("list-sessions", by_path(path)),
        Command::UpdateRule { path, .. } => ("update-rule", by_path(path)),
        Command::ShowRule { path, .. } => ("show-rule", by_path(path)),
        Command::AddRule { path, .. } => ("add-rule", by_path(path)),
        Command::RemoveRule { path, .. } => ("remove-rule", by_path(path)),
        Command::ListRules { path, .. } => ("list-rules", by_path(path)),
        Command::CreateEntity { name, .. } | Command::CreateSubscription { name, .. } => {
            ("create", Place::Name(name.clone()))
        }
        Command::UpdateEntity { name, .. } => ("update", Place::Name(name.clone())),
        Command::DeleteEntity { name, .. } => ("delete", Place::Name(name.clone())),
        Command::Describe { .. } => ("describe", Place::Nowhere),
        Command::FindEntity { path, .. } => ("find-entity", by_path(path)),
        Command::Discharge { .. } => ("discharge", Place::Nowhere),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
