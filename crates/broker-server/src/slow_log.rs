//! Slow log: operations that take long from the arrival of a command to the release of its effects.
//!
//! A step of the node is measured by the command that began it, which waited longest. This costs two reads of the clock
//! for each step.
//!
//! Invariant: at most one line is written in [`PAUSE`], and what is remembered is bounded.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use broker_core::{Batch, Command, EntityPath, QueueId};
use broker_log::Position;
use broker_node::NamespaceId;
use tracing::warn;

use crate::clock::millis;

/// Turns whose records are not durable yet that are remembered; later ones share the fate of these.
const STEPS_MAX: usize = 1_024;
/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Object of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum OperationTarget {
    Queue(QueueId),
    /// Name that the client gave.
    Name(Box<str>),
    /// Nothing of its own.
    Nowhere,
}

/// A turn whose effects still wait.
#[derive(Debug)]
struct NodeStep {
    /// Its effects leave when the journal is durable up to here.
    until: Position,
    began: Instant,
    waited: Duration,
    operation: &'static str,
    namespace: NamespaceId,
    target: OperationTarget,
    /// Commands of its first batch.
    commands: usize,
}

/// A turn that took too long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SlowOperation {
    pub(crate) operation: &'static str,
    pub(crate) namespace: NamespaceId,
    pub(crate) target: OperationTarget,
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
pub(crate) struct SlowLog {
    threshold: Duration,
    /// First command of the current step.
    first: Option<(&'static str, NamespaceId, OperationTarget, usize)>,
    steps: VecDeque<NodeStep>,
    told_at: Option<Instant>,
    others: u64,
}

impl SlowLog {
    pub(crate) const fn new(threshold: Duration) -> Self {
        Self { threshold, first: None, steps: VecDeque::new(), told_at: None, others: 0 }
    }

    /// A batch is handled; the first of a turn is remembered.
    pub(crate) fn handles(&mut self, namespace: NamespaceId, batch: &Batch) {
        if self.first.is_none()
            && let Some(command) = batch.commands.iter().find_map(named)
        {
            self.first = Some((command.0, namespace, command.1, batch.commands.len()));
        }
    }

    /// A turn is done that began then, after its first command had waited; its effects leave when the journal is
    /// durable up to `until`.
    pub(crate) fn on_step(&mut self, began: Instant, waited: Duration, until: Position) {
        let Some((operation, namespace, target, commands)) = self.first.take() else { return };
        if self.steps.len() < STEPS_MAX {
            self.steps.push_back(NodeStep { until, began, waited, operation, namespace, target, commands });
        }
    }

    /// Whether a turn waits for the disk.
    pub(crate) fn waits(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The journal is durable up to `durable`, at `now`. Gives a turn that took too long, if one is to be told of.
    pub(crate) fn durable(&mut self, durable: Position, now: Instant) -> Option<SlowOperation> {
        let mut slowest: Option<SlowOperation> = None;
        while self.steps.front().is_some_and(|step| step.until <= durable)
            && let Some(step) = self.steps.pop_front()
        {
            let took = step.waited + now.saturating_duration_since(step.began);
            if took <= self.threshold {
                continue;
            }
            self.others += 1;
            if slowest.as_ref().is_none_or(|slowest| slowest.took < took) {
                let NodeStep { operation, namespace, target, commands, waited, .. } = step;
                let others = 0;
                slowest =
                    Some(SlowOperation { operation, namespace, target, commands, took, waited, others });
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

impl SlowOperation {
    /// Writes the line; `entity` is what the place is called.
    pub(crate) fn write(&self, entity: &str) {
        let (took_ms, queued_ms) = (millis(self.took), millis(self.waited));
        let Self { operation, commands, others, .. } = self;
        warn!(target: "ferrybus::slow", operation, entity, took_ms, queued_ms, commands, others, "slow operation");
    }
}

/// Name of a command in the log, and its object; `None` for commands without an answer.
fn named(command: &Command) -> Option<(&'static str, OperationTarget)> {
    let by_path = |path: &EntityPath| OperationTarget::Name(path.entity.clone());
    Some(match command {
        Command::Publish { queue, .. } | Command::PublishBatch { queue, .. } => {
            ("publish", OperationTarget::Queue(*queue))
        }
        Command::PublishTo { path, .. } => ("publish", by_path(path)),
        Command::Settle { queue, .. } => ("settle", OperationTarget::Queue(*queue)),
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
            ("create", OperationTarget::Name(name.clone()))
        }
        Command::UpdateEntity { name, .. } => ("update", OperationTarget::Name(name.clone())),
        Command::DeleteEntity { name, .. } => ("delete", OperationTarget::Name(name.clone())),
        Command::Describe { .. } => ("describe", OperationTarget::Nowhere),
        Command::FindEntity { path, .. } => ("find-entity", by_path(path)),
        Command::Discharge { .. } => ("discharge", OperationTarget::Nowhere),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
