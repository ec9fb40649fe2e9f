//! The planted faults of settlement: what is confirmed or handed out before the removal that it depends on is durable.
//!
//! The node is asked for a completion without an answer, which it lets nothing wait for; the answer is made up here.
//!
//! Invariant: without such a fault nothing is touched.

use std::collections::BTreeSet;

use broker_core::{
    Batch, ClientId, Command, Effect, LinkId, Outcome, ReceiveMode, SettleError, Ticket, Timestamp,
};
use broker_node::{Node, Released};

use crate::plan::{Fault, Places};

/// What a process with such a fault remembers.
#[derive(Debug, Default)]
pub(super) struct Haste {
    confirms: bool,
    hands: bool,
    /// Answers that nothing has held back.
    early: Vec<Released>,
    /// Links that receive and delete, and of which the node believes that they lock.
    deleters: BTreeSet<(ClientId, LinkId)>,
    now: Timestamp,
}

impl Haste {
    /// What is planted, if anything.
    pub(super) fn plant(&mut self, places: &Places) {
        self.confirms = !places.does(Fault::Confirms);
        self.hands = !places.does(Fault::Hands);
    }

    /// Gives a batch to the node.
    pub(super) fn handle_batch(&mut self, node: &mut Node, now: Timestamp, mut batch: Batch) {
        self.now = now;
        if self.confirms {
            return self.confirm(node, batch);
        }
        if self.hands {
            self.note_deleters(&mut batch);
        }
        node.handle_batch(now, batch);
    }

    /// Command by command, and a completion has its answer as soon as it is done.
    fn confirm(&mut self, node: &mut Node, batch: Batch) {
        let client = batch.client;
        for mut command in batch.commands {
            let taken = match &mut command {
                Command::Settle { outcome: Outcome::Complete, ticket, .. } => ticket.take(),
                _ => None,
            };
            let before = node.journal().committed();
            node.handle_batch(self.now, Batch { client, commands: vec![command] });
            if let Some(ticket) = taken {
                // A refused one writes nothing.
                let effect = answer(ticket, node.journal().committed() > before);
                self.early.push(Released { client, effects: vec![effect] });
            }
        }
    }

    fn note_deleters(&mut self, batch: &mut Batch) {
        for command in &mut batch.commands {
            match command {
                Command::OpenConsumer { consumer, mode, .. } if *mode == ReceiveMode::ReceiveAndDelete => {
                    *mode = ReceiveMode::PeekLock;
                    self.deleters.insert((batch.client, *consumer));
                }
                Command::CloseConsumer { consumer } => {
                    self.deleters.remove(&(batch.client, *consumer));
                }
                _ => {}
            }
        }
    }

    /// What goes to a link that receives and deletes is completed now, and shown as gone.
    pub(super) fn hand_out(&mut self, node: &mut Node, released: &mut Released) {
        let client = released.client;
        let mut commands = Vec::new();
        for effect in &mut released.effects {
            if let Effect::Delivery(delivery) = effect
                && self.deleters.contains(&(client, delivery.consumer))
                && let Some(lock) = delivery.lock.take()
            {
                let (queue, sequence, outcome) = (delivery.queue, delivery.sequence, Outcome::Complete);
                commands.push(Command::Settle { queue, sequence, lock: lock.id, outcome, ticket: None });
            }
        }
        if !commands.is_empty() {
            node.handle_batch(self.now, Batch { client, commands });
        }
    }

    /// What may be shown although nothing is durable.
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
