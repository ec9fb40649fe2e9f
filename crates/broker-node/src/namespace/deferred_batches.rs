//! Deferred batches: commands that wait for a later round, with one queue for each client.
//!
//! Invariant: one client's commands come out in the order they went in; clients take turns.

use std::collections::{BTreeMap, VecDeque};

use broker_core::{Batch, ClientId, Command};

/// Batches, by client.
#[derive(Debug, Default)]
pub(crate) struct DeferredBatches {
    /// Clients with deferred commands, in round-robin order, each once.
    turns: VecDeque<ClientId>,
    /// None of them is empty.
    batches: BTreeMap<ClientId, VecDeque<Vec<Command>>>,
}

impl DeferredBatches {
    /// True when nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether something of this client waits.
    pub(crate) fn has(&self, client: ClientId) -> bool {
        !self.is_empty() && self.batches.contains_key(&client)
    }

    /// Adds a batch behind the others of its client.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.of(batch.client).push_back(batch.commands);
    }

    /// Gives back what is left of a batch that was taken: it goes before the others of its client.
    pub(crate) fn put_back(&mut self, rest: Batch) {
        self.of(rest.client).push_front(rest.commands);
    }

    /// Takes the first batch of the client whose turn it is, which has its next turn after the others.
    pub(crate) fn pop(&mut self) -> Option<Batch> {
        let client = self.turns.pop_front()?;
        let batches = self.batches.get_mut(&client)?;
        let commands = batches.pop_front()?;
        if batches.is_empty() {
            self.batches.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        Some(Batch { client, commands })
    }

    fn of(&mut self, client: ClientId) -> &mut VecDeque<Vec<Command>> {
        self.batches.entry(client).or_insert_with(|| {
            self.turns.push_back(client);
            VecDeque::new()
        })
    }
}

#[cfg(test)]
mod tests;
