//! Deferred batches: commands that wait for a later round or for reads of the disk, with one queue for each client.
//!
//! Invariant: one client's commands come out in the order they went in; clients take turns. A client whose first command waits for
//! reads has no turn before they are done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker_core::{Batch, ClientId, Command, ReadId};

/// Reason why commands of a client are not handled yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CommandWait {
    /// No round had room for them.
    NextRound,
    /// The first of them needs messages that are read from the disk.
    Disk,
}

/// Batches, by client.
#[derive(Debug, Default)]
pub(crate) struct DeferredBatches {
    /// Clients with deferred commands that wait for no read, in round-robin order, each once.
    turns: VecDeque<ClientId>,
    /// None of them is empty.
    batches: BTreeMap<ClientId, VecDeque<Vec<Command>>>,
    /// Clients whose first command waits for reads, with the number of these.
    reading: BTreeMap<ClientId, usize>,
    reads: BTreeSet<(ReadId, ClientId)>,
}

impl DeferredBatches {
    /// Whether something can be handled now.
    pub(crate) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether something waits for reads.
    pub(crate) fn is_reading(&self) -> bool {
        !self.reading.is_empty()
    }

    /// Whether something of this client waits.
    pub(crate) fn has(&self, client: ClientId) -> bool {
        !self.batches.is_empty() && self.batches.contains_key(&client)
    }

    /// The reason for which something of this client waits, if something does.
    pub(crate) fn wait(&self, client: ClientId) -> Option<CommandWait> {
        let is_reading = self.reading.contains_key(&client);
        self.has(client).then_some(if is_reading { CommandWait::Disk } else { CommandWait::NextRound })
    }

    /// Adds a batch behind the others of its client.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.of(batch.client).push_back(batch.commands);
    }

    /// Gives back what is left of a batch that was taken: it goes before the others of its client.
    pub(crate) fn put_back(&mut self, rest: Batch) {
        self.of(rest.client).push_front(rest.commands);
    }

    /// The same for a batch whose first command needs these reads.
    pub(crate) fn put_back_to_read(&mut self, rest: Batch, reads: Vec<ReadId>) {
        let client = rest.client;
        self.put_back(rest);
        self.turns.retain(|other| *other != client);
        let reads: BTreeSet<_> = reads.into_iter().map(|read| (read, client)).collect();
        self.reading.insert(client, reads.len());
        self.reads.extend(reads);
    }

    /// A read is done. Clients that wait for no other one have their turns after those that have one already.
    pub(crate) fn on_read(&mut self, read: ReadId) {
        while let Some((_, client)) =
            self.reads.range((read, ClientId(0))..).next().copied().filter(|(other, _)| *other == read)
        {
            self.reads.remove(&(read, client));
            let Some(left) = self.reading.get_mut(&client) else { continue };
            *left -= 1;
            if *left == 0 {
                self.reading.remove(&client);
                self.turns.push_back(client);
            }
        }
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

    /// Clients of which something waits.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.batches.keys().copied()
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
