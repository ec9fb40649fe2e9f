//! The thread that runs the node: the single writer of the partition.
//!
//! Invariant: a connection's batches are handled in the order it submitted them; a delivery that no connection took
//! is given back to its queue.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use broker_core::{Batch, ClientId, Command, Effect, Outcome, Properties, Timestamp};
use broker_node::Node;
use tracing::error;

use crate::{
    clock,
    disk_thread::DiskThread,
    inbox::{Inbox, Item},
    mailbox::Mailbox,
};

/// The node at work.
pub(crate) struct NodeThread {
    node: Node,
    inbox: Arc<Inbox>,
    /// `None` for a journal in memory.
    disk: Option<DiskThread>,
    clients: BTreeMap<ClientId, Arc<Mailbox>>,
    quiet: Quiet,
    /// The operator was told that space is not reclaimed.
    warned: bool,
}

/// Why the node ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// It was asked to, and everything is durable.
    Stopped,
    /// The journal failed; nothing more may be acknowledged.
    Poisoned,
}

impl NodeThread {
    /// Ready to run.
    pub(crate) fn new(node: Node, inbox: Arc<Inbox>, disk: Option<DiskThread>) -> Self {
        Self { node, inbox, disk, clients: BTreeMap::new(), quiet: Quiet::No, warned: false }
    }

    /// Runs until stopped or poisoned.
    pub(crate) fn run(mut self) -> Ended {
        let mut items = Vec::new();
        let mut owed = Vec::new();
        let mut stopping = false;
        let mut more = false;
        loop {
            self.inbox.take(&mut items, self.patience(more));
            let now = clock::utc();
            self.look_around(!items.is_empty() || more);
            for item in items.drain(..) {
                stopping |= self.handle(now, item, &mut owed);
            }
            more = self.node.work(now);
            more |= self.release();
            if stopping && !more {
                self.node.close();
            }
            more |= self.give_to_disk();
            // After the disk was used at once, too: nothing may come that would wake this thread to look.
            if let Some(reason) = self.node.fault() {
                error!(%reason, "the journal failed; nothing more is accepted, restart to recover");
                return Ended::Poisoned;
            }
            self.pay(&mut owed);
            if stopping && !more && self.node.is_closed() {
                return Ended::Stopped;
            }
        }
    }

    /// Handles one item; true asks to stop. What commands weighed is owed to their clients.
    fn handle(&mut self, now: Timestamp, item: Item, owed: &mut Vec<(ClientId, usize)>) -> bool {
        match item {
            Item::Batch(batch, weight) => {
                let client = batch.client;
                self.node.handle_batch(now, batch);
                owed.push((client, weight));
                self.pay(owed);
            }
            Item::Io(done) => self.node.handle_io(done),
            Item::Register(client, mailbox) => {
                self.clients.insert(client, mailbox);
            }
            Item::Forget(client) => {
                let left = self.clients.remove(&client).map(|mailbox| mailbox.take_rest());
                self.give_back(now, client, left.unwrap_or_default());
            }
            Item::Stop => return true,
        }
        false
    }

    /// Lets clients send on, unless the disk is so far behind that memory must be spared.
    fn pay(&self, owed: &mut Vec<(ClientId, usize)>) {
        if self.node.is_behind() {
            return;
        }
        for (client, weight) in owed.drain(..) {
            if let Some(mailbox) = self.clients.get(&client) {
                mailbox.dealt_with(weight);
            }
        }
    }

    /// Tells the journal of quiet times, and the operator once of a journal that cannot reclaim its space.
    fn look_around(&mut self, busy: bool) {
        if busy {
            self.quiet = Quiet::No;
        } else if self.quiet == Quiet::Soon {
            self.quiet = Quiet::Told;
            self.node.notice_idle();
        } else if self.quiet == Quiet::No {
            self.quiet = Quiet::Soon;
        }
        if !self.warned
            && let Some(error) = self.node.cleaning_stopped()
        {
            self.warned = true;
            error!(%error, "the journal cannot reclaim space: a record cannot be read; check the disk");
        }
    }

    /// Shows what is durable to those it is for; true when that gave the node something to do.
    fn release(&mut self) -> bool {
        let mut gave_back = false;
        while let Some(released) = self.node.poll_effects() {
            match self.clients.get(&released.client) {
                Some(mailbox) => mailbox.put(released.effects),
                None => gave_back |= self.give_back(clock::utc(), released.client, released.effects),
            }
        }
        gave_back
    }

    /// Unlocks messages that were on their way to a connection that is over: its client never saw them, and they need
    /// not wait for their locks to run out. True when there were some.
    fn give_back(&mut self, now: Timestamp, client: ClientId, effects: Vec<Effect>) -> bool {
        let commands: Vec<Command> = effects.into_iter().filter_map(unlocked).collect();
        let some = !commands.is_empty();
        if some {
            self.node.handle_batch(now, Batch { client, commands });
        }
        some
    }

    /// Hands out disk work; shows at once what a write done at once has made durable. True when that gave the node
    /// something to do.
    fn give_to_disk(&mut self) -> bool {
        let mut gave_back = false;
        while let Some(request) = self.node.poll_io() {
            let Some(disk) = &self.disk else { break };
            if let Some(done) = disk.perform(request, self.inbox.is_empty()) {
                self.node.handle_io(done);
                gave_back |= self.release();
            }
        }
        gave_back
    }

    /// How long the node may sleep: not at all with work left, else until its next deadline; and not long before it
    /// has noticed that nothing happens.
    fn patience(&self, more: bool) -> Option<Duration> {
        if more {
            return Some(Duration::ZERO);
        }
        let until = |deadline: Timestamp| deadline.as_millis().saturating_sub(clock::utc().as_millis());
        let deadline = self.node.deadline().map(until).map(Duration::from_millis);
        match (deadline, self.quiet) {
            (deadline, Quiet::Told) => deadline,
            (None, _) => Some(QUIET),
            (Some(deadline), _) => Some(deadline.min(QUIET)),
        }
    }
}

/// Time without a command after which things are quiet; it passes twice at the most.
const QUIET: Duration = Duration::from_millis(50);

/// How quiet it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Quiet {
    /// Something has just happened.
    #[default]
    No,
    /// Nothing has happened for a moment.
    Soon,
    /// The journal knows.
    Told,
}

/// The command that undoes a delivery with a lock.
fn unlocked(effect: Effect) -> Option<Command> {
    let Effect::Delivery(delivery) = effect else { return None };
    Some(Command::Settle {
        queue: delivery.queue,
        sequence: delivery.sequence,
        lock: delivery.lock?.id,
        outcome: Outcome::Release(Properties::default()),
        ticket: None,
    })
}

#[cfg(test)]
mod tests;
