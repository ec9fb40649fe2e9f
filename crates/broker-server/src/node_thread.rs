//! The thread that runs the node: the single writer of the partition.
//!
//! Invariant: a connection's batches are handled in the order it submitted them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use broker_core::{ClientId, Timestamp};
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
    pub(crate) node: Node,
    pub(crate) inbox: Arc<Inbox>,
    /// `None` for a journal in memory.
    pub(crate) disk: Option<DiskThread>,
    pub(crate) clients: BTreeMap<ClientId, Arc<Mailbox>>,
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
    /// Runs until stopped or poisoned.
    pub(crate) fn run(mut self) -> Ended {
        let mut items = Vec::new();
        let mut owed = Vec::new();
        let mut stopping = false;
        let mut more = false;
        loop {
            self.inbox.take(&mut items, self.patience(more));
            let now = clock::utc();
            for item in items.drain(..) {
                stopping |= self.handle(now, item, &mut owed);
            }
            more = self.node.work(now);
            self.release();
            if stopping {
                self.node.flush();
            }
            self.give_to_disk();
            // After the disk was used at once, too: nothing may come that would wake this thread to look.
            if let Some(reason) = self.node.fault() {
                error!(%reason, "the journal failed; nothing more is accepted, restart to recover");
                return Ended::Poisoned;
            }
            self.pay(&mut owed);
            if stopping && !more && self.node.is_settled() {
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
                self.clients.remove(&client);
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

    fn release(&mut self) {
        while let Some(released) = self.node.poll_effects() {
            if let Some(mailbox) = self.clients.get(&released.client) {
                mailbox.put(released.effects);
            }
        }
    }

    /// Hands out disk work; shows at once what a write done at once has made durable.
    fn give_to_disk(&mut self) {
        while let Some(request) = self.node.poll_io() {
            let Some(disk) = &self.disk else { return };
            if let Some(done) = disk.perform(request, self.inbox.is_empty()) {
                self.node.handle_io(done);
                self.release();
            }
        }
    }

    /// How long the node may sleep: not at all with work left, else until its next deadline.
    fn patience(&self, more: bool) -> Option<Duration> {
        if more {
            return Some(Duration::ZERO);
        }
        let deadline = self.node.deadline()?;
        Some(Duration::from_millis(deadline.as_millis().saturating_sub(clock::utc().as_millis())))
    }
}
