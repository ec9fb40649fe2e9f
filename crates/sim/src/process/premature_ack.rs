//! Planted faults of settlement: a confirmation or a delivery that does not wait until the removal is durable, and a
//! rollback that releases what its receiver holds.
//!
//! The simulator submits completions without an answer, which wait for nothing, and forges the answer.
//!
//! Invariant: without such a fault nothing is touched.

use std::collections::BTreeSet;

use broker_core::{
    Batch, ClientId, Command, Effect, LinkId, Outcome, ReceiveMode, SettleError, Ticket, Timestamp,
};
use broker_node::{NamespaceId, Node, Released};

use crate::plan::{PlantedFault, Topology};

/// State of a process with such a fault.
#[derive(Debug, Default)]
pub(super) struct PrematureAck {
    confirms: bool,
    hands: bool,
    releases: bool,
    /// Answers that nothing has held back.
    early: Vec<Released>,
    /// Links that receive and delete, and of which the node believes that they lock.
    deleters: BTreeSet<(NamespaceId, ClientId, LinkId)>,
    now: Timestamp,
}

impl PrematureAck {
    /// Plants the fault of the plan.
    pub(super) fn plant(&mut self, topology: &Topology) {
        self.confirms = !topology.is_free_of(PlantedFault::EarlyConfirmation);
        self.hands = !topology.is_free_of(PlantedFault::EarlyDelivery);
        self.releases = !topology.is_free_of(PlantedFault::RollbackReleases);
    }

    /// Gives a batch to the node.
    pub(super) fn handle_batch(
        &mut self,
        node: &mut Node,
        now: Timestamp,
        id: NamespaceId,
        mut batch: Batch,
    ) {
        self.now = now;
        if self.confirms {
            return self.confirm(node, id, batch);
        }
        if self.hands {
            self.note_deleters(id, &mut batch);
        }
        if self.releases {
            batch.commands.iter_mut().for_each(mark_settled);
        }
        node.handle_batch(now, id, batch);
    }

    /// Command by command, and a completion has its answer as soon as it is done.
    fn confirm(&mut self, node: &mut Node, id: NamespaceId, batch: Batch) {
        let client = batch.client;
        for mut command in batch.commands {
            let taken = match &mut command {
                Command::Settle { outcome: Outcome::Complete, ticket, .. } => ticket.take(),
                _ => None,
            };
            let before = node.journal().committed();
            node.handle_batch(self.now, id, Batch { client, commands: vec![command] });
            if let Some(ticket) = taken {
                // A refused one writes nothing.
                let effect = answer(ticket, node.journal().committed() > before);
                self.early.push(Released { namespace: id, client, effects: vec![effect] });
            }
        }
    }

    fn note_deleters(&mut self, id: NamespaceId, batch: &mut Batch) {
        for command in &mut batch.commands {
            match command {
                Command::OpenConsumer { consumer, mode, .. } if *mode == ReceiveMode::ReceiveAndDelete => {
                    *mode = ReceiveMode::PeekLock;
                    self.deleters.insert((id, batch.client, *consumer));
                }
                Command::CloseConsumer { consumer } | Command::LeaveConsumer { consumer } => {
                    self.deleters.remove(&(id, batch.client, *consumer));
                }
                _ => {}
            }
        }
    }

    /// Completes a delivery of a receive-and-delete link at once, and shows it as removed.
    pub(super) fn hand_out(&mut self, node: &mut Node, released: &mut Released) {
        let (id, client) = (released.namespace, released.client);
        let mut commands = Vec::new();
        for effect in &mut released.effects {
            if let Effect::Delivery(delivery) = effect
                && self.deleters.contains(&(id, client, delivery.consumer))
                && let Some(lock) = delivery.lock.take()
            {
                let (queue, sequence, outcome) = (delivery.queue, delivery.sequence, Outcome::Complete);
                commands.push(Command::Settle { queue, sequence, lock: lock.id, outcome, ticket: None });
            }
        }
        if !commands.is_empty() {
            node.handle_batch(self.now, id, Batch { client, commands });
        }
    }

    /// Effects that are shown although nothing is durable.
    pub(super) fn take(&mut self) -> Vec<Released> {
        std::mem::take(&mut self.early)
    }

    /// The process is gone.
    pub(super) fn forget(&mut self) {
        self.early.clear();
        self.deleters.clear();
    }
}

fn answer(ticket: Ticket, done: bool) -> Effect {
    if done {
        Effect::Settled { first: ticket, last: ticket }
    } else {
        Effect::SettleRefused { ticket, error: SettleError::LockLost }
    }
}

/// A receiver that has not settled in a transaction is taken for one that has: a rollback gives its message back.
fn mark_settled(command: &mut Command) {
    if let Command::Enlist { settled, .. } = command {
        *settled = true;
    }
}
