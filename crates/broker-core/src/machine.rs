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
mod duplicates;
mod enlist;
mod entities;
mod forward;
mod idle;
mod keys;
mod leaving;
mod links;
mod partitions;
mod peek;
mod publish;
mod pump;
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

use broker_filter::Filter;
use bytes::Bytes;

use crate::{
    Batch, ClientId, Command, CoreConfig, Delivery, Effect, Output, QueueId, Timestamp,
    client::{Client, Consumer},
    id_map::IdMap,
    listed::Listed,
    machine::{
        approach::AHEAD,
        copies::Room,
        deferred::FetchRequest,
        forward::Awake,
        idle::Idle,
        leaving::Leaving,
        links::How,
        peek::{Lookup, PeekRequest, What},
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
/// (`Output::read`) before its next call. `now` never goes back: the node sees to it.
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
        'all: while !commands.as_slice().is_empty() {
            self.approach_commands(commands.as_slice());
            for command in commands.by_ref().take(AHEAD) {
                self.dispatch(now, client, command, out);
                if out.is_full() {
                    break 'all;
                }
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

    fn dispatch(&mut self, now: Timestamp, client: ClientId, command: Command, out: &mut impl Output) {
        match command {
            Command::Publish { queue, message, ticket } => {
                self.publish(now, client, queue, std::slice::from_ref(&message), ticket, out);
            }
            Command::Settle { queue, sequence, lock, outcome, ticket } => {
                self.settle(now, client, (queue, sequence, lock), outcome, ticket, out);
            }
            Command::PublishBatch { queue, messages, ticket } => {
                self.publish(now, client, queue, &messages, ticket, out);
            }
            Command::PublishTo { path, messages, auto_create, ticket } => {
                self.publish_to(now, client, &path, &messages, auto_create, ticket, out);
            }
            Command::PublishThrough { path, through, messages, ticket } => {
                self.publish_through(now, client, &path, &through, &messages, ticket, out);
            }
            Command::Credit { consumer, limit, drain } => self.credit(client, consumer, limit, drain),
            Command::ByteBudget { limit } => self.byte_budget(client, limit),
            command => self.dispatch_request(now, client, command, out),
        }
    }

    /// The commands of a management node.
    fn dispatch_request(
        &mut self,
        now: Timestamp,
        client: ClientId,
        command: Command,
        out: &mut impl Output,
    ) {
        match command {
            Command::SettleByToken { path, tokens, outcome, ticket } => {
                self.settle_by_token(now, client, &path, &tokens, &outcome, ticket, out);
            }
            Command::RenewLocks { path, tokens, ticket } => {
                self.renew_locks(now, client, &path, &tokens, ticket, out);
            }
            Command::Declare { transaction, ticket } => self.declare(client, transaction, ticket, out),
            Command::Enlist { transaction, operation } => {
                self.enlist(now, client, transaction, *operation, out);
            }
            Command::Discharge { transaction, fail, ticket } => {
                self.discharge(now, client, transaction, fail, ticket, out);
            }
            Command::Peek { path, session, from, count, bytes, ticket } => {
                let request = PeekRequest { path, session, from, count, bytes };
                self.lookups.push_back(Lookup { client, ticket, what: What::Peek(request) });
            }
            Command::ReceiveDeferred { path, session, sequences, delete, bytes, ticket } => {
                let request = FetchRequest { path, session, sequences, delete, bytes };
                self.lookups.push_back(Lookup { client, ticket, what: What::Fetch(request) });
            }
            Command::Schedule { path, messages, ticket } => {
                self.schedule(now, client, &path, &messages, ticket, out);
            }
            Command::CancelScheduled { path, sequences, ticket } => {
                self.cancel_scheduled(client, &path, &sequences, ticket, out);
            }
            Command::DeleteMessages { path, session, count, before, ticket } => {
                self.delete_messages(client, (&path, session.as_deref()), (count, before), ticket, out);
            }
            Command::RenewSession { .. }
            | Command::SetSessionState { .. }
            | Command::GetSessionState { .. }
            | Command::ListSessions { .. } => self.dispatch_session(now, client, command, out),
            command => self.dispatch_link(now, client, command, out),
        }
    }

    /// The commands about sessions.
    fn dispatch_session(
        &mut self,
        now: Timestamp,
        client: ClientId,
        command: Command,
        out: &mut impl Output,
    ) {
        match command {
            Command::RenewSession { path, session, ticket } => {
                self.renew_session(now, client, &path, &session, ticket, out);
            }
            Command::SetSessionState { path, session, state, ticket } => {
                self.set_session_state(now, client, (&path, &session), state, ticket, out);
            }
            Command::GetSessionState { path, session, ticket } => {
                self.get_session_state(now, client, &path, &session, ticket, out);
            }
            Command::ListSessions { path, updated_after, skip, top, ticket } => {
                self.list_sessions(client, &path, updated_after, (skip, top), ticket, out);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
    }

    /// The commands that open and close things.
    fn dispatch_link(&mut self, now: Timestamp, client: ClientId, command: Command, out: &mut impl Output) {
        match command {
            Command::Connect => self.connect(client),
            Command::Disconnect => self.disconnect(now, client, out),
            Command::OpenProducer { producer, path, auto_create } => {
                self.open_producer(now, client, producer, &path, auto_create, out);
            }
            Command::OpenProducerThrough { producer, path, through, auto_create } => {
                self.open_producer_through(now, client, producer, (&path, &through), auto_create, out);
            }
            Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create } => {
                let how = How { mode, unsettled, session, filter: Filter::True, owner: None };
                self.open_consumer(now, client, consumer, &path, how, auto_create, out);
            }
            Command::OpenSubscriber { consumer, path, mode, unsettled, subscriber, auto_create } => {
                let how = (mode, unsettled);
                self.open_subscriber(now, client, consumer, path, how, *subscriber, auto_create, out);
            }
            Command::FindSubscriber { link, container, name } => {
                self.find_subscriber(client, link, (&container, &name), out);
            }
            Command::Unsubscribe { subscription } => self.unsubscribe(&subscription, out),
            Command::CloseProducer { producer: link } | Command::CloseConsumer { consumer: link } => {
                self.close_link(now, client, link, out);
            }
            Command::CreateEntity { name, kind, settings, ticket } => {
                let done = self.create_entity(now, &name, kind, *settings, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::CreateSubscription { name, settings, rules, ticket } => {
                let done = self.create_subscription(now, &name, *settings, rules, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::AddRule { path, rule, ticket } => {
                let done = self.add_rule(now, &path, *rule, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::UpdateRule { path, rule, expected, ticket } => {
                let done = self.update_rule(now, &path, *rule, expected.as_deref(), out);
                self.answer_request(client, ticket, done, out);
            }
            Command::RemoveRule { path, name, expected, ticket } => {
                let done = self.remove_rule(&path, &name, expected.as_deref(), out);
                self.answer_request(client, ticket, done, out);
            }
            Command::ShowRule { path, name, ticket } => self.show_rule(client, &path, &name, ticket, out),
            Command::ListRules { path, skip, top, ticket } => {
                self.list_rules(client, &path, (skip, top), ticket, out);
            }
            Command::UpdateEntity { name, settings, expected, ticket } => {
                let done = self.update_entity(now, &name, *settings, expected, out);
                self.answer_request(client, ticket, done, out);
            }
            Command::Describe { look, ticket } => {
                let entities = self.describe(&look);
                self.merge.effect(client, Effect::Described { ticket, entities }, out);
            }
            Command::WatchKeys => self.keys_watcher = Some(client),
            Command::DeleteEntity { name, expected, ticket } => {
                let done = self.delete_entity(&name, expected, out);
                self.answer_request(client, ticket, done, out);
            }
            _ => debug_assert!(false, "`dispatch` treats all other commands"),
        }
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
