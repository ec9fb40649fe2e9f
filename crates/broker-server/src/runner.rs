//! One turn of the node: what was brought goes in, what is durable goes out to mailboxes, disk work is handed out.
//!
//! Invariant: a connection's batches are handled in the order it submitted them; a delivery that no connection took
//! is given back to its queue.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use broker_core::{Batch, ClientId, Command, Effect, Outcome, Properties, Timestamp};
use broker_log::JournalStats;
use broker_node::Node;
use tokio::sync::{oneshot, watch};
use tracing::error;

use crate::{
    clock::{self, Clock},
    disk_space::DiskSpace,
    disk_thread::DiskThread,
    inbox::Item,
    keyring::{self, Keyring},
    mailbox::Mailbox,
    slow::{Place, Slow},
};

/// The node at work: the single writer of the shard.
#[derive(Debug)]
pub(crate) struct Runner {
    node: Node,
    clock: Arc<Clock>,
    /// `None` for a journal in memory.
    disk: Option<DiskThread>,
    clients: BTreeMap<ClientId, Arc<Mailbox>>,
    /// What handled commands weighed, owed to their clients, also to those that are over: all share one account.
    owed: Vec<(ClientId, Arc<Mailbox>, usize)>,
    /// How many of them were looked at.
    #[cfg(test)]
    looked_at: usize,
    /// There is more to do at once.
    more: bool,
    stopping: bool,
    /// The operator was told that space is not reclaimed.
    warned: bool,
    /// Who has moved the time and waits until what became due by that is done.
    moved: Vec<oneshot::Sender<Option<Timestamp>>>,
    /// Watches for what takes long.
    slow: Option<Slow>,
    /// Where keys of entities are brought.
    keyring: Option<Keyring>,
    /// The state of the disk, for the log.
    space: Option<watch::Sender<DiskSpace>>,
}

/// How the node is doing.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    /// Figures of its journal.
    pub(crate) journal: JournalStats,
    /// Sends are refused until there is space again.
    pub(crate) storage_full: bool,
    /// Space is not reclaimed any more.
    pub(crate) cleaning_stopped: bool,
}

/// Why the node ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// It was asked to, and everything is durable.
    Stopped,
    /// The journal failed; nothing more may be acknowledged.
    Poisoned,
    /// A fault of ours.
    Panicked,
}

impl Runner {
    /// Ready to run.
    pub(crate) fn new(node: Node, clock: Arc<Clock>, disk: Option<DiskThread>) -> Self {
        Self {
            node,
            clock,
            disk,
            clients: BTreeMap::new(),
            owed: Vec::new(),
            #[cfg(test)]
            looked_at: 0,
            more: false,
            stopping: false,
            warned: false,
            moved: Vec::new(),
            slow: None,
            keyring: None,
            space: None,
        }
    }

    /// Brings the keys of entities to `keyring`: those that there are now, and each change.
    pub(crate) fn with_keyring(mut self, keyring: Keyring) -> Self {
        // All that was recovered is durable.
        for (entity, rules) in self.node.core().keys() {
            keyring.set(entity, rules);
        }
        self.node.handle_batch(self.clock.utc(), Keyring::request());
        self.keyring = Some(keyring);
        self
    }

    /// Tells `space` whether the disk is full: now, and whenever that changes.
    pub(crate) fn with_space(mut self, space: watch::Sender<DiskSpace>) -> Self {
        self.space = Some(space);
        self.note_space();
        self
    }

    /// Logs what takes longer than this.
    pub(crate) fn watched(mut self, threshold: Option<Duration>) -> Self {
        self.slow = threshold.map(Slow::new);
        self
    }

    /// Handles `items`, and does a bounded piece of everything else. `alone` says whether nothing more waits. The end,
    /// if it has come.
    pub(crate) fn turn(
        &mut self,
        items: &mut Vec<Item>,
        waited: Duration,
        alone: impl Fn() -> bool,
    ) -> Option<Ended> {
        let began = self.slow.is_some().then(clock::instant);
        let mut now = self.clock.utc();
        self.warn();
        for item in items.drain(..) {
            self.handle(now, item);
            if !self.moved.is_empty() {
                now = self.clock.utc();
            }
        }
        self.more = self.node.work(now);
        if let (Some(slow), Some(began)) = (&mut self.slow, began) {
            slow.turned(began, waited, self.node.journal().committed());
        }
        self.more |= self.release();
        if self.stopping && !self.more && !self.node.has_waiting() {
            self.node.close();
        }
        self.more |= self.give_to_disk(alone);
        // After the disk was used at once, too: nothing may come that would make anybody look.
        if let Some(reason) = self.node.fault() {
            error!(%reason, "the journal failed; nothing more is accepted, restart to recover");
            return Some(Ended::Poisoned);
        }
        self.tell_slow();
        self.note_space();
        self.pay();
        if !self.more {
            self.tell_moved(now);
        }
        (self.stopping && !self.more && self.node.is_closed()).then_some(Ended::Stopped)
    }

    /// Whether another turn has something to do.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// When a turn has something to do by itself.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.node.deadline()
    }

    fn handle(&mut self, now: Timestamp, item: Item) {
        match item {
            Item::Batch(batch, weight) => {
                if let Some(mailbox) = self.clients.get(&batch.client) {
                    self.owed.push((batch.client, Arc::clone(mailbox), weight));
                }
                if let Some(slow) = &mut self.slow {
                    slow.handles(&batch);
                }
                self.node.handle_batch(now, batch);
                // Where much waits, who is owed is looked through once, at the end of the turn.
                if !self.node.has_waiting() {
                    self.pay();
                }
            }
            Item::Io(done) => self.node.handle_io(done),
            Item::Register(client, mailbox) => {
                self.clients.insert(client, mailbox);
            }
            Item::Forget(client) => {
                let left = self.clients.remove(&client).map(|mailbox| mailbox.take());
                self.give_back(now, client, left.unwrap_or_default());
            }
            Item::Quiet => self.node.notice_idle(),
            Item::Advance(by, answer) => self.advance(by, answer),
            // Who asked may have gone.
            Item::Look(answer) => drop(answer.send(self.view())),
            Item::Stop => self.stopping = true,
        }
    }

    fn view(&self) -> NodeView {
        let journal = self.node.journal();
        NodeView {
            journal: journal.stats(),
            storage_full: journal.storage_full(),
            cleaning_stopped: journal.cleaning_stopped().is_some(),
        }
    }

    /// Moves the time; the answer waits for what becomes due by that.
    fn advance(&mut self, by: Duration, answer: oneshot::Sender<Option<Timestamp>>) {
        if self.clock.advance(by) {
            self.moved.push(answer);
        } else {
            // Nothing has changed. Who asked may have gone.
            answer.send(None).ok();
        }
    }

    /// Answers those who moved the time, unless something is due still, or waits for the disk.
    fn tell_moved(&mut self, now: Timestamp) {
        if !self.node.is_behind() && self.node.deadline().is_none_or(|deadline| deadline > now) {
            for answer in self.moved.drain(..) {
                answer.send(Some(now)).ok();
            }
        }
    }

    /// Lets clients send on, unless the disk is so far behind that memory must be spared, or what they sent still waits.
    fn pay(&mut self) {
        if self.node.is_behind() {
            return;
        }
        #[cfg(test)]
        {
            self.looked_at += self.owed.len();
        }
        let node = &self.node;
        self.owed.retain(|(client, mailbox, weight)| {
            let waits = node.has_waiting_of(*client);
            if !waits {
                mailbox.dealt_with(*weight);
            }
            waits
        });
    }

    /// Tells whether the disk is full, if that has changed; how full it is goes along unasked.
    fn note_space(&self) {
        let Some(space) = &self.space else { return };
        let journal = self.node.journal();
        let is_full = journal.is_full();
        space.send_if_modified(|state| {
            let has_changed = state.is_full != is_full;
            if is_full || has_changed {
                *state = DiskSpace { is_full, free_bytes: journal.stats().free_bytes };
            }
            has_changed
        });
    }

    /// Tells the operator, once, of a journal that cannot reclaim its space.
    fn warn(&mut self) {
        if !self.warned
            && let Some(error) = self.node.cleaning_stopped()
        {
            self.warned = true;
            error!(%error, "the journal cannot reclaim space: a record cannot be read; check the disk");
        }
    }

    /// Tells the operator of what took long.
    fn tell_slow(&mut self) {
        let Some(slow) = self.slow.as_mut().filter(|slow| slow.waits()) else { return };
        let Some(turn_taken) = slow.durable(self.node.journal().durable(), clock::instant()) else { return };
        let entity = match &turn_taken.place {
            Place::Queue(queue) => self.node.core().name_of(*queue).unwrap_or_default(),
            Place::Name(name) => name,
            Place::Nowhere => "",
        };
        turn_taken.write(entity);
    }

    /// Shows what is durable to those it is for; true when that gave the node something to do.
    fn release(&mut self) -> bool {
        let mut gave_back = false;
        while let Some(released) = self.node.poll_effects() {
            match self.clients.get(&released.client) {
                Some(mailbox) => mailbox.put(released.effects),
                None if released.client == keyring::CLIENT => {
                    if let Some(keyring) = &self.keyring {
                        keyring.take(released.effects);
                    }
                }
                None => gave_back |= self.give_back(self.clock.utc(), released.client, released.effects),
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
    fn give_to_disk(&mut self, alone: impl Fn() -> bool) -> bool {
        let mut gave_back = false;
        while let Some(request) = self.node.poll_io() {
            let Some(disk) = &self.disk else { break };
            if let Some(done) = disk.perform(request, &alone) {
                self.node.handle_io(done);
                gave_back |= self.release();
            }
        }
        gave_back
    }
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
