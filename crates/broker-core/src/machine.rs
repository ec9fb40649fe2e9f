//! The core itself: takes commands and time, gives records and effects.
//!
//! Invariant: the state after replaying the records equals the state that wrote them, but for locks, links, credit
//! and what only one process knows (`acquired_before`, unreadable messages).

mod admission;
mod approach;
mod arrival;
mod copies;
mod dead_letter;
mod deadline;
mod deferred;
mod delete;
mod describe;
mod dispatch;
mod duplicates;
mod enlist;
mod entities;
mod forward;
mod idle;
mod keys;
mod leaving;
mod links;
mod node_kind;
mod partitions;
mod peek;
mod publish;
mod pump;
mod reading;
mod recovery;
mod remains;
mod rules;
mod schedule;
mod select;
mod session_requests;
mod sessions;
mod settle;
mod status;
mod subscribers;
mod through;
mod topic;
mod transact;
mod views;

pub use recovery::ReplayError;
pub use views::EntityView;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::{
    Batch, ClientId, Command, CoreConfig, Delivery, Output, QueueId, Timestamp,
    client::{Client, Consumer},
    id_map::IdMap,
    listed::Listed,
    machine::{
        approach::AHEAD, copies::Room, forward::Awake, idle::Idle, leaving::Leaving, peek::Lookup,
        remains::Remains,
    },
    merge::Merge,
    open_transactions::Transactions,
    rules::Rules,
    slot::ConsumerNumber,
    store::Store,
    token::Tokens,
};

/// One partition's entities.
///
/// Inputs, in the order in which the node gives them:
/// - once: [`Core::replay`] for each record of the journal, then [`Core::recovered`];
/// - then, over and over: [`Core::handle_deadline`], [`Core::handle_batch`] for what the clients ask, and
///   [`Core::pump`] as long as it says that there is more; [`Core::relocate`] and [`Core::segment_done`] when the
///   journal cleans up, but not while [`Core::gives_back`].
///
/// Each call is one atomic unit: its records belong into one journal batch. The node must make them readable
/// (`Output::read`) before its next call. `now` never goes back: whoever owns the clock sees to it.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    tokens: Tokens,
    /// Key of the name → main store.
    names: BTreeMap<Box<str>, QueueId>,
    listed: Listed,
    stores: IdMap<QueueId, Box<Store>>,
    rules: Rules,
    clients: IdMap<ClientId, Client>,
    consumers: IdMap<ConsumerNumber, Consumer>,
    /// The earliest deadline of each store that has one. It may be earlier than needed, never later.
    timers: BTreeSet<(Timestamp, QueueId)>,
    /// Stores that may have something to hand out or to send on.
    active: Awake,
    /// Waiting for the next `pump`.
    lookups: VecDeque<Lookup>,
    merge: Merge,
    /// Locks that end.
    leaving: Leaving,
    /// What deleted entities left.
    remains: Remains,
    /// What the actions of rules may still write in the current step.
    room: Room,
    transactions: Transactions,
    /// Session states that this call has written and cannot read back yet.
    fresh_states: BTreeMap<(QueueId, u32), Bytes>,
    /// Empty between calls; see `pump`.
    held: Vec<(ClientId, Delivery)>,
    /// Stores whose histories have something to record; empty between calls.
    noted: Vec<QueueId>,
    /// Message ids in all recorded histories.
    remembered: u64,
    next_store: u32,
    next_consumer: u32,
    next_lock: u32,
    /// When to look whether an entity is still used.
    idle: Idle,
    /// Who is told of keys that entities get and lose.
    keys_watcher: Option<ClientId>,
    /// The time of the current call.
    now: Timestamp,
}

impl Core {
    /// An empty broker.
    pub fn new(config: CoreConfig) -> Self {
        let tokens = Tokens::new(config.token_key);
        let room = Room::of(config.send_bytes_max());
        Self {
            config,
            tokens,
            names: BTreeMap::new(),
            listed: Listed::default(),
            stores: IdMap::default(),
            rules: Rules::default(),
            clients: IdMap::default(),
            consumers: IdMap::default(),
            timers: BTreeSet::new(),
            active: Awake::default(),
            lookups: VecDeque::new(),
            merge: Merge::default(),
            leaving: Leaving::default(),
            remains: Remains::default(),
            room,
            transactions: Transactions::default(),
            fresh_states: BTreeMap::new(),
            held: Vec::new(),
            noted: Vec::new(),
            remembered: 0,
            next_store: 1,
            next_consumer: 1,
            next_lock: 1,
            idle: Idle::default(),
            keys_watcher: None,
            now: Timestamp::default(),
        }
    }

    /// Does what one client asked in one go. Runs of answers and of removals are merged, so this is the way to go
    /// for more than one command.
    ///
    /// One message may become a copy for each of ten thousand subscriptions. So when `out` is full ([`Output::is_full`])
    /// the rest of the batch is given back, to be handled in a later call. Each call handles at least one command.
    pub fn handle_batch(&mut self, now: Timestamp, batch: Batch, out: &mut impl Output) -> Option<Batch> {
        self.now = now;
        self.begin_leaving();
        self.begin_states();
        let client = batch.client;
        let mut commands = batch.commands.into_iter();
        while !commands.as_slice().is_empty() {
            self.approach_commands(commands.as_slice());
            let mut done = 0;
            for command in commands.as_mut_slice().iter_mut().take(AHEAD) {
                if !self.dispatch_in_place(now, client, command, out) {
                    break;
                }
                done += 1;
                if out.is_full() {
                    break;
                }
            }
            if let Some(last) = usize::checked_sub(done, 1) {
                // They go where they lie.
                drop(commands.nth(last));
            } else if let Some(command) = commands.next() {
                self.dispatch(now, client, command, out);
            }
            if out.is_full() {
                break;
            }
        }
        self.finish_call(out);
        if commands.as_slice().is_empty() {
            return None;
        }
        Some(Batch { client, commands: commands.collect() })
    }

    /// Does one thing that a client asked.
    ///
    /// A client that did not connect, or has disconnected, may still publish and settle, for such commands carry
    /// all they need. Anything else it asks is ignored.
    pub fn handle(&mut self, now: Timestamp, client: ClientId, command: Command, out: &mut impl Output) {
        self.now = now;
        self.begin_leaving();
        self.begin_states();
        self.dispatch(now, client, command, out);
        self.finish_call(out);
    }
}

/// Notes that a store may have something to hand out or to send on.
fn wake(store: &mut Store, active: &mut Awake) {
    if store.queued {
        return;
    }
    if store.forwards.is_some() {
        store.queued = true;
        active.forward.push_back(store.id);
        return;
    }
    let somebody_waits = !store.ring.is_empty()
        || !store.browsers.is_empty()
        || !store.draining.is_empty()
        || store.selects_now()
        || store.sessions.as_ref().is_some_and(|sessions| sessions.has_work());
    if somebody_waits {
        store.queued = true;
        active.hand_out.push_back(store.id);
    }
}

#[cfg(test)]
mod tests;
