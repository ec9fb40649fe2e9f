//! All kinds of entities at once, forwarding to each other, under random commands, time, crashes, cleaning, full disks,
//! deletions and transactions.
//!
//! It proves: a message that was accepted and not ended by a client is in exactly one place; the journal's idea of
//! what is alive is the core's; the journal alone brings everything back; what is ready can be received.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use proptest::prelude::*;

use super::{harness::*, recovery::clean, transacting::Answered};
use crate::{
    ClientId, Command, CoreConfig, Delivery, Effect, EntityKind, EntityPath, EntitySettings, EntityStatus,
    LinkId, Message, Outcome, QueueId, ReceiveMode, SequenceNumber, SessionWanted, SubQueue, Ticket,
    Timestamp, TransactionId, UnsettledPolicy, store::load_message::DiskAccess,
};

const LOCK: u64 = 100;
const NAMES: [&str; 6] = ["q", "s", "d", "p", "f", "ps"];
/// With copies, what is where cannot be said so simply.
const ALL: [&str; 10] =
    ["q", "s", "d", "p", "f", "ps", "t", "t/Subscriptions/a", "t/Subscriptions/b", "t/Subscriptions/c"];

const STATUSES: [EntityStatus; 4] =
    [EntityStatus::Active, EntityStatus::Disabled, EntityStatus::SendDisabled, EntityStatus::ReceiveDisabled];

#[derive(Clone, Debug)]
enum Step {
    Send { to: usize, count: u8, session: u8, ttl: Option<u16>, delay: Option<u16>, tx: Option<u64> },
    Open { client: u64, link: u32, from: usize, sub: u8, mode: u8, session: Option<u8> },
    Close { client: u64, link: u32 },
    Credit { client: u64, link: u32, more: u64, drain: bool },
    Settle { pick: u8, outcome: u8, tx: Option<u64>, by_token: bool },
    Fetch { from: usize, pick: u8, delete: bool },
    Cancel { pick: u8 },
    Purge { from: usize, dead: bool, count: u8 },
    State { at: usize, session: u8, some: bool },
    Declare { tx: u64 },
    Discharge { tx: u64, fail: bool },
    Forward { from: usize, to: Option<usize>, dead: bool },
    Status { at: usize, status: u8 },
    Recreate { at: usize },
    Full { full: bool },
    Disconnect { client: u64 },
    Wait { millis: u16 },
    Crash,
    Clean { share: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (client, link) = (1u64..3, 1u32..6);
    let at = prop_oneof![2 => 0usize..2, 1 => 0usize..10];
    let tx = proptest::option::weighted(0.3, 1u64..4);
    let few = |most: u16| proptest::option::weighted(0.2, 1..most);
    prop_oneof![
        12 => (at.clone(), 1u8..4, 0u8..3, few(300), few(300), tx.clone())
            .prop_map(|(to, count, session, ttl, delay, tx)| Step::Send { to, count, session, ttl, delay, tx }),
        14 => (client.clone(), link.clone(), at.clone(), 0u8..4, 0u8..6, proptest::option::of(0u8..3))
            .prop_map(|(client, link, from, sub, mode, session)| Step::Open { client, link, from, sub, mode, session }),
        1 => (client.clone(), link.clone()).prop_map(|(client, link)| Step::Close { client, link }),
        8 => (client.clone(), link, 0u64..5, any::<bool>())
            .prop_map(|(client, link, more, drain)| Step::Credit { client, link, more, drain }),
        20 => (any::<u8>(), 0u8..8, tx, any::<bool>())
            .prop_map(|(pick, outcome, tx, by_token)| Step::Settle { pick, outcome, tx, by_token }),
        3 => (at.clone(), any::<u8>(), any::<bool>()).prop_map(|(from, pick, delete)| Step::Fetch { from, pick, delete }),
        1 => any::<u8>().prop_map(|pick| Step::Cancel { pick }),
        1 => (at.clone(), any::<bool>(), 1u8..4).prop_map(|(from, dead, count)| Step::Purge { from, dead, count }),
        2 => (at.clone(), 0u8..3, any::<bool>()).prop_map(|(at, session, some)| Step::State { at, session, some }),
        3 => (1u64..4).prop_map(|tx| Step::Declare { tx }),
        3 => (1u64..4, proptest::bool::weighted(0.3)).prop_map(|(tx, fail)| Step::Discharge { tx, fail }),
        3 => (at.clone(), proptest::option::weighted(0.7, 0usize..7), any::<bool>())
            .prop_map(|(from, to, dead)| Step::Forward { from, to, dead }),
        1 => (at.clone(), prop_oneof![2 => Just(0u8), 1 => 0u8..4]).prop_map(|(at, status)| Step::Status { at, status }),
        1 => at.prop_map(|at| Step::Recreate { at }),
        1 => proptest::bool::weighted(0.3).prop_map(|full| Step::Full { full }),
        1 => client.prop_map(|client| Step::Disconnect { client }),
        4 => prop_oneof![3 => 0u16..40, 1 => 0u16..200].prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Crash),
        2 => any::<u8>().prop_map(|share| Step::Clean { share }),
    ]
}

/// Facts of test payloads: `id;session;ttl in ms;due in ms`.
fn describe(_now: Timestamp, payload: &Bytes) -> Message {
    let text = String::from_utf8(payload.to_vec()).unwrap();
    let mut parts = text.split(';').map(str::to_owned);
    let id = parts.next().unwrap_or_default();
    let session = parts.next().filter(|session| !session.is_empty());
    let ttl = parts.next().and_then(|ttl| ttl.parse().ok());
    let due: Option<u64> = parts.next().and_then(|due| due.parse().ok());
    Message {
        payload: payload.clone(),
        message_id: Some(id.into()),
        session_id: session.map(Into::into),
        time_to_live: ttl.map(Duration::from_millis),
        scheduled_enqueue_time: due.map(Timestamp::from_millis),
        ..Message::default()
    }
}

/// A send to `path`, through `via` if that is given.
fn send(path: EntityPath, via: Option<EntityPath>, messages: Vec<Message>, ticket: Ticket) -> Command {
    let ticket = Some(ticket);
    match via {
        Some(via) => Command::PublishVia { path, via, messages, ticket },
        None => Command::PublishTo { path, messages, auto_create: false, ticket },
    }
}

#[derive(Default)]
struct Open {
    sent: Vec<String>,
    ended: Vec<String>,
}

struct Test {
    broker: Broker,
    topics: bool,
    /// Messages that must be in one store.
    there: Vec<String>,
    granted: Vec<Delivery>,
    limits: BTreeMap<(u64, u32), u64>,
    /// Links that receive and delete.
    takes: BTreeSet<(ClientId, LinkId)>,
    open: BTreeMap<u64, Open>,
    scheduled: Vec<(usize, u64, String)>,
    count: u64,
}

fn path(name: &str, sub: u8) -> EntityPath {
    let sub_queue = match sub {
        0 | 1 => SubQueue::Main,
        2 => SubQueue::DeadLetter,
        _ => SubQueue::TransferDeadLetter,
    };
    EntityPath { entity: name.into(), sub_queue }
}

fn settings(name: &str) -> EntitySettings {
    EntitySettings {
        lock_duration: Duration::from_millis(LOCK),
        max_delivery_count: 2,
        dead_letter_on_expiration: true,
        requires_session: matches!(name, "s" | "ps" | "t/Subscriptions/c"),
        requires_duplicate_detection: name == "d",
        enable_partitioning: matches!(name, "p" | "ps"),
        ..EntitySettings::default()
    }
}

impl Test {
    fn new(topics: bool) -> Self {
        let config =
            CoreConfig { token_key: [7; 16], describe, deliver_messages_max: 3, ..CoreConfig::default() };
        let mut test = Self {
            broker: Broker::with(config),
            topics,
            there: Vec::new(),
            granted: Vec::new(),
            limits: BTreeMap::new(),
            takes: BTreeSet::new(),
            open: BTreeMap::new(),
            scheduled: Vec::new(),
            count: 0,
        };
        test.names().iter().for_each(|name| test.create(name));
        test
    }

    fn names(&self) -> &'static [&'static str] {
        if self.topics { &ALL } else { &NAMES }
    }

    fn create(&mut self, name: &str) {
        let kind = match name {
            "t" => EntityKind::Topic,
            _ if name.starts_with("t/") => EntityKind::Subscription,
            _ => EntityKind::Queue,
        };
        let ticket = self.broker.ticket();
        let settings = Box::new(settings(name));
        let command = Command::CreateEntity { name: name.into(), kind, settings, ticket };
        assert_eq!(self.broker.ask(command), Ok(()));
    }

    /// An entity's own messages, its dead letters and its transfer dead letters.
    fn stores(&self, name: &str) -> [QueueId; 3] {
        let view = self.broker.core.entity(name).unwrap();
        [view.queue, view.dead_letter_queue, view.transfer_dead_letter_queue]
    }

    /// Texts of all that a store has.
    fn contents(&mut self, name: &str, sub: u8) -> Vec<String> {
        let id = {
            let view = self.broker.core.entity(name).unwrap();
            [view.queue, view.queue, view.dead_letter_queue, view.transfer_dead_letter_queue]
                [usize::from(sub)]
        };
        let store = &self.broker.core.state.messages.entities.stores[&id];
        let sequences: Vec<u64> = store.slots.iter().map(|(sequence, _)| sequence).collect();
        self.broker.journal.make_readable();
        let read = |sequence: &u64| {
            let slot = self.broker.core.state.messages.entities.stores[&id].slots.get(*sequence).unwrap();
            if slot.state == crate::store::slot::State::Body {
                return None;
            }
            let record = self
                .broker
                .core
                .state
                .messages
                .entities
                .read_message(id, *sequence, DiskAccess::Wait, &mut self.broker.journal)
                .unwrap();
            Some(String::from_utf8(record.into_payload().to_vec()).unwrap())
        };
        sequences.iter().filter_map(read).collect()
    }

    fn everything(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.names() {
            for sub in 1..4 {
                found.extend(self.contents(name, sub));
            }
        }
        found.sort_unstable();
        found
    }

    fn end(&mut self, text: &str) {
        self.there.retain(|there| there != text);
    }

    fn take_step(&mut self, step: &Step) {
        let names = self.names();
        let at = |place: usize| names[place % names.len()];
        match *step {
            Step::Send { to, count, session, ttl, delay, tx } => {
                self.send(at(to), (count, session), (ttl, delay), tx);
            }
            Step::Open { client, link, from, sub, mode, session } => {
                self.open((client, link), (at(from), sub), mode, session);
            }
            Step::Close { client, link } => {
                self.tell(client, Command::CloseConsumer { consumer: LinkId(link) });
            }
            Step::Credit { client, link, more, drain } => {
                let limit = self.limits.entry((client, link)).or_default();
                *limit += more;
                let limit = *limit;
                self.tell(client, Command::Credit { consumer: LinkId(link), limit, drain });
            }
            Step::Settle { pick, outcome, tx, by_token } => self.settle(pick, outcome, tx, by_token),
            Step::Fetch { from, pick, delete } => self.fetch(at(from), pick, delete),
            Step::Cancel { pick } => self.cancel(pick),
            Step::Purge { from, dead, count } => self.purge(at(from), dead, count),
            Step::State { at: place, session, some } => {
                let (path, session) = (main_path(at(place)), format!("s{session}").into());
                let (state, ticket) = (some.then(|| "state".into()), self.broker.ticket());
                self.tell(1, Command::SetSessionState { path, session, state, ticket });
            }
            Step::Declare { tx } => {
                if self.broker.declare_by(ME, TransactionId(tx)) == Answered::Done {
                    self.open.insert(tx, Open::default());
                }
            }
            Step::Discharge { tx, fail } => self.discharge(tx, fail),
            Step::Forward { from, to, dead } => {
                // The entity with duplicate detection drops a message that arrives for the second time.
                let target = to.map(at).filter(|to| *to != "d" && (self.topics || *to != "t"));
                self.update(at(from), |settings| {
                    let place =
                        if dead { &mut settings.forward_dead_lettered_to } else { &mut settings.forward_to };
                    *place = target.map(Into::into);
                });
            }
            Step::Status { at: place, status } => {
                let status = STATUSES[usize::from(status)];
                self.update(at(place), |settings| settings.status = status);
            }
            Step::Recreate { at: place } => self.recreate(at(place)),
            Step::Full { full } => self.broker.journal.full = full,
            Step::Disconnect { client } => {
                self.tell(client, Command::Disconnect);
                if client == 1 {
                    self.open.clear();
                }
                self.tell(client, Command::Connect);
                self.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
            }
            Step::Wait { millis } => self.broker.wait(u64::from(millis)),
            Step::Crash => {
                let before = self.broker.core.digest();
                self.broker.restart();
                assert_eq!(self.broker.core.digest(), before);
                self.open.clear();
            }
            Step::Clean { share } => {
                let end = self.broker.journal.end();
                clean(&mut self.broker, end / 256 * u64::from(share));
            }
        }
    }

    fn open(&mut self, (client, link): (u64, u32), (from, sub): (&str, u8), mode: u8, session: Option<u8>) {
        let mode = match mode {
            0 => ReceiveMode::ReceiveAndDelete,
            1 => ReceiveMode::Browse,
            _ => ReceiveMode::PeekLock,
        };
        let policies = [UnsettledPolicy::KeepLocks, UnsettledPolicy::Release, UnsettledPolicy::Fail];
        let wanted = match session {
            Some(session) => SessionWanted::Named(format!("s{session}").into()),
            None => SessionWanted::Next { patience: Duration::from_millis(50) },
        };
        let has_sessions = self.broker.core.entity(from).unwrap().settings.requires_session;
        let command = Command::OpenConsumer {
            consumer: LinkId(link),
            path: path(from, sub),
            mode,
            unsettled: policies[link as usize % 3],
            session: Some(wanted).filter(|_| has_sessions && sub < 2 && mode != ReceiveMode::Browse),
            auto_create: false,
        };
        let (limit, key) = (3, (ClientId(client), LinkId(link)));
        self.takes.remove(&key);
        if mode == ReceiveMode::ReceiveAndDelete {
            self.takes.insert(key);
        }
        self.limits.insert((client, link), limit);
        self.tell(client, command);
        self.tell(client, Command::Credit { consumer: LinkId(link), limit, drain: false });
    }

    fn discharge(&mut self, tx: u64, fail: bool) {
        let Some(open) = self.open.remove(&tx) else { return };
        let done = self.broker.discharge(TransactionId(tx), fail);
        if done == Answered::Done && !fail {
            open.ended.iter().for_each(|text| self.end(text));
            self.there.extend(open.sent);
        }
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut EntitySettings)) {
        let mut settings = self.broker.core.entity(name).unwrap().settings.clone();
        change(&mut settings);
        let told = self.broker.update(name, settings);
        self.broker.journal.effects.extend(told.into_iter().map(|effect| (ME, effect)));
    }

    fn tell(&mut self, client: u64, command: Command) {
        let client = ClientId(client);
        let told = self.broker.tell(client, command);
        self.broker.journal.effects.extend(told.into_iter().map(|effect| (client, effect)));
    }

    /// Takes in what was delivered.
    fn listen(&mut self) {
        for (client, effect) in std::mem::take(&mut self.broker.journal.effects) {
            let Effect::Delivery(delivery) = effect else { continue };
            if delivery.lock.is_some() {
                self.granted.push(delivery);
            } else if self.takes.contains(&(client, delivery.consumer)) {
                self.end(&text(&delivery));
            }
        }
    }

    fn send(
        &mut self,
        to: &str,
        (count, session): (u8, u8),
        (ttl, delay): (Option<u16>, Option<u16>),
        tx: Option<u64>,
    ) {
        let messages: Vec<Message> = (0..count)
            .map(|_| {
                self.count += 1;
                let due = delay.map(|delay| self.broker.now.as_millis() + u64::from(delay));
                let show = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
                let text = format!("m{};s{session};{};{}", self.count, show(ttl.map(u64::from)), show(due));
                describe(self.broker.now, &text.into())
            })
            .collect();
        let texts = messages.iter().map(|message| String::from_utf8(message.payload.to_vec()).unwrap());
        let texts: Vec<String> = texts.collect();
        let (path, via) = (main_path(to), main_path("f"));
        let via = Some(via).filter(|_| count == 3);
        match tx {
            _ if delay.is_some() => self.schedule(to, messages, &texts, tx),
            Some(tx) => {
                let ticket = self.broker.ticket();
                let command = send(path, via, messages, ticket);
                let answered = self.broker.enlist(TransactionId(tx), command, ticket);
                if let (Some(open), Answered::Done) = (self.open.get_mut(&tx), answered) {
                    open.sent.extend(texts);
                }
            }
            None => {
                let ticket = self.broker.ticket();
                let told = self.broker.tell(ME, send(path, via, messages, ticket));
                if self.broker.answer(ME, ticket, told) == Some(Answered::Done) {
                    self.there.extend(texts);
                }
            }
        }
    }

    fn schedule(&mut self, to: &str, messages: Vec<Message>, texts: &[String], tx: Option<u64>) {
        let (path, ticket) = (main_path(to), self.broker.ticket());
        let command = match tx {
            None => Command::Schedule { path, messages, ticket },
            Some(tx) => {
                let command = Command::Schedule { path, messages, ticket };
                command.within(TransactionId(tx))
            }
        };
        let place = self.names().iter().position(|name| *name == to).unwrap();
        for effect in self.broker.tell(ME, command) {
            if let Effect::Scheduled { sequences, .. } = &effect {
                let numbers = sequences.iter().map(|sequence| sequence.0);
                self.scheduled.extend(numbers.zip(texts).map(|(number, text)| (place, number, text.clone())));
                match tx.map(|tx| self.open.get_mut(&tx)) {
                    None => self.there.extend_from_slice(texts),
                    Some(Some(open)) => open.sent.extend_from_slice(texts),
                    Some(None) => panic!("no transaction took them"),
                }
            }
            self.broker.journal.effects.push((ME, effect));
        }
    }

    fn settle(&mut self, pick: u8, outcome: u8, tx: Option<u64>, by_token: bool) {
        let settled = pick % 2 == 1;
        if self.granted.is_empty() {
            return;
        }
        // The latest ones are the most likely to be locked.
        let place = self.granted.len() - 1 - usize::from(pick) % self.granted.len().min(8);
        let delivery = self.granted[place].clone();
        let outcome = match outcome {
            0..3 => Outcome::Complete,
            3 => Outcome::Abandon(properties(&[])),
            4 => Outcome::Abandon(properties(&[("k", "v")])),
            5 => Outcome::Release(properties(&[])),
            6 => Outcome::Defer(properties(&[("k", "w")])),
            _ => Outcome::DeadLetter(properties(&[("DeadLetterReason", "x")])),
        };
        let ends = outcome == Outcome::Complete;
        let (queue, sequence, lock) = (delivery.queue, delivery.sequence, delivery.lock.unwrap());
        let ticket = self.broker.ticket();
        let main = self
            .broker
            .core
            .state
            .messages
            .entities
            .main_of(queue)
            .map(|entity| entity.definition.name.clone());
        let path = main.map(|name| main_path(&name)).filter(|_| by_token);
        if let Some(tx) = tx {
            let command = if let Some(path) = path {
                let tokens = vec![lock.token];
                Command::SettleByToken { path, session: None, tokens, outcome, ticket }
            } else {
                let (lock, ticket) = (lock.id, Some(ticket));
                Command::Settle { queue, sequence, lock, outcome, ticket }
            };
            let answered = self.broker.enlist_as(TransactionId(tx), command, settled, ticket);
            if let (Some(open), Answered::Done, true) = (self.open.get_mut(&tx), answered, ends) {
                open.ended.push(text(&delivery));
            }
            return;
        }
        let command = match path {
            Some(path) => {
                Command::SettleByToken { path, session: None, tokens: vec![lock.token], outcome, ticket }
            }
            None => Command::Settle { queue, sequence, lock: lock.id, outcome, ticket: Some(ticket) },
        };
        let told = self.broker.tell(ME, command);
        if self.broker.answer(ME, ticket, told) == Some(Answered::Done) && ends {
            self.end(&text(&delivery));
        }
    }

    fn fetch(&mut self, name: &str, pick: u8, delete: bool) {
        let view = self.broker.core.entity(name).unwrap();
        let store = &self.broker.core.state.messages.entities.stores[&view.queue];
        let deferred =
            store.slots.iter().filter(|(_, slot)| slot.state == crate::store::slot::State::Deferred);
        let deferred: Vec<u64> = deferred.map(|(sequence, _)| sequence).collect();
        if deferred.is_empty() {
            return;
        }
        let sequence = deferred[usize::from(pick) % deferred.len()];
        let session = view.settings.requires_session.then(|| "s0".into());
        let (queue, path) = (view.queue, main_path(name));
        let (sequences, ticket) = (vec![SequenceNumber(sequence)], self.broker.ticket());
        let command = Command::ReceiveDeferred { path, session, sequences, delete, bytes: 1 << 20, ticket };
        for effect in self.broker.tell(ME, command) {
            let Effect::Fetched { messages, .. } = effect else {
                self.broker.journal.effects.push((ME, effect));
                continue;
            };
            for fetched in messages {
                let delivery = Delivery {
                    consumer: LinkId(0),
                    queue,
                    sequence: fetched.sequence,
                    lock: fetched.lock,
                    stored: fetched.stored,
                };
                match delivery.lock {
                    Some(_) => self.granted.push(delivery),
                    None => self.end(&text(&delivery)),
                }
            }
        }
    }

    fn cancel(&mut self, pick: u8) {
        if self.scheduled.is_empty() {
            return;
        }
        let (place, number, text) = self.scheduled.remove(usize::from(pick) % self.scheduled.len());
        let ticket = self.broker.ticket();
        let sequences = vec![SequenceNumber(number)];
        let path = main_path(self.names()[place]);
        let told = self.broker.tell(ME, Command::CancelScheduled { path, sequences, ticket });
        if self.broker.answer(ME, ticket, told) == Some(Answered::Done) {
            self.end(&text);
        }
    }

    fn purge(&mut self, name: &str, dead: bool, count: u8) {
        let sub = 1 + u8::from(dead);
        let before = self.contents(name, sub);
        let (ticket, before_time) = (self.broker.ticket(), Timestamp::MAX);
        let (path, count) = (path(name, 2 * u8::from(dead)), u32::from(count));
        // Nothing is delivered from this store meanwhile: what was ready and wanted has been.
        self.tell(1, Command::DeleteMessages { path, session: None, count, before: before_time, ticket });
        let after = self.contents(name, sub);
        before.iter().filter(|text| !after.contains(text)).for_each(|text| self.end(text));
    }

    fn recreate(&mut self, name: &'static str) {
        let gone = |other: &str| other == name || (name == "t" && other.starts_with("t/"));
        let names: Vec<&str> = self.names().iter().copied().filter(|other| gone(other)).collect();
        for other in &names {
            for sub in 1..4 {
                self.contents(other, sub).iter().for_each(|text| self.end(text));
            }
        }
        let all = self.names();
        self.scheduled.retain(|(place, ..)| !gone(all[*place]));
        let ticket = self.broker.ticket();
        // All of it is given back at once: until then bodies count copies that a restart knows nothing of.
        let few =
            std::mem::replace(&mut self.broker.core.state.messages.config.deliver_messages_max, u32::MAX);
        assert_eq!(
            self.broker.ask(Command::DeleteEntity { name: name.into(), expected: None, ticket }),
            Ok(())
        );
        self.broker.core.state.messages.config.deliver_messages_max = few;
        for other in names {
            self.create(other);
        }
    }

    fn check(&mut self) {
        self.listen();
        self.broker.check_liveness();
        if self.topics {
            return;
        }
        let found = self.everything();
        self.there.sort_unstable();
        assert_eq!(found, self.there);
    }

    /// Everything that is ready can be received.
    fn drain(&mut self) {
        self.broker.journal.full = false;
        for client in [1, 2] {
            self.tell(client, Command::Disconnect);
            self.tell(client, Command::Connect);
            self.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
        }
        for name in self.names() {
            let before = self.broker.core.entity(name).unwrap().settings.clone();
            let plain = EntitySettings { enable_partitioning: before.enable_partitioning, ..settings(name) };
            let told = self.broker.update(name, plain);
            assert!(told.iter().any(|effect| matches!(effect, Effect::EntityDone { .. })), "{told:?}");
        }
        self.broker.wait(200_000);
        for name in self.names() {
            let view = self.broker.core.entity(name).unwrap();
            assert_eq!((view.locked, view.scheduled, view.damaged), (0, 0, 0), "{name}");
            if view.kind == EntityKind::Topic {
                continue;
            }
            let sessions = view.settings.requires_session;
            for sub in 1..4 {
                for link in 1..30 {
                    let next = SessionWanted::Next { patience: Duration::ZERO };
                    let session = Some(next).filter(|_| sessions && sub < 2);
                    let command = Command::OpenConsumer {
                        consumer: LinkId(link),
                        path: path(name, sub),
                        mode: ReceiveMode::ReceiveAndDelete,
                        unsettled: UnsettledPolicy::Release,
                        session,
                        auto_create: false,
                    };
                    self.takes.insert((ME, LinkId(link)));
                    self.tell(1, command);
                    self.tell(1, Command::Credit { consumer: LinkId(link), limit: 10_000, drain: true });
                    self.tell(1, Command::CloseConsumer { consumer: LinkId(link) });
                    if !sessions {
                        break;
                    }
                }
            }
            let left = self
                .stores(name)
                .map(|id| self.broker.core.state.messages.entities.stores[&id].counts.active);
            assert_eq!(left, [0; 3], "{name}");
        }
        self.check();
        if self.topics {
            let view = self.broker.core.entity("t").unwrap();
            let stores = ALL.iter().flat_map(|name| self.stores(name));
            let deferred: usize =
                stores.map(|id| self.broker.core.state.messages.entities.stores[&id].counts.deferred).sum();
            assert!(view.bytes == 0 || deferred > 0, "bodies go with their copies");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 500, ..ProptestConfig::default() })]
    #[test]
    fn every_message_is_in_exactly_one_place_under_random_commands(
        topics in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..150),
        is_on_disk: bool,
    ) {
        let mut test = Test::new(topics);
        test.broker.journal.is_on_disk = is_on_disk;
        for step in &steps {
            test.take_step(step);
            test.check();
        }
        let replayed = test.broker.replayed();
        prop_assert_eq!(replayed.digest(), test.broker.core.digest());
        test.drain();
    }
}
