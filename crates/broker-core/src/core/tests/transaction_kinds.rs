//! Random transactions with everything else that they may have in them, against a model: deferral, schedules, topics
//! and sessions, with lost locks and sessions, time-outs, lost clients and crashes.
//!
//! It proves: the properties that [`crate::core::tests::transaction_model`] proves of plain queues hold here too. A
//! copy is in each subscription or in none; a schedule is there after the commit, and comes due; a deferred message
//! stays where it is until then; and a session that is lost under a transaction is given to nobody before the
//! transaction has ended.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::{
    harness::*,
    open_in_model::{self, AllOpen},
    transacting::*,
};
use crate::{
    Command, Delivery, Effect, EntityKind, EntitySettings, LinkId, LockId, LockToken, Message, Outcome,
    QueueId, ReceiveMode, SequenceNumber, SessionWanted, Timestamp, TransactionId, UnsettledPolicy,
};

const LOCK: u64 = 300;
/// Stores of messages. The topic itself holds only scheduled ones.
const PLACES: [&str; 5] = ["q", "s", "t/Subscriptions/one", "t/Subscriptions/two", "t"];
const SESSIONS: usize = 1;
const COPIES: [usize; 2] = [2, 3];
const TOPIC: usize = 4;
/// Targets of sends.
const TARGETS: [usize; 3] = [0, SESSIONS, TOPIC];

#[derive(Clone, Debug)]
enum Step {
    Lock { place: usize, count: u64 },
    Hold { odd: bool, count: u64 },
    Fetch { pick: u8 },
    Declare { name: u64 },
    Send { name: u64, target: usize, count: u8, delay: Option<u64>, asked: bool },
    Settle { name: Option<u64>, pick: u8, outcome: u8, by_token: bool },
    Discharge { name: u64, fail: bool },
    Wait { millis: u64 },
    Leave,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 1u64..4;
    let delay = proptest::option::weighted(0.4, 0u64..400);
    let place = prop::sample::select(vec![0usize, 2, 3]);
    prop_oneof![
        5 => (place, 1u64..4).prop_map(|(place, count)| Step::Lock { place, count }),
        3 => (any::<bool>(), 1u64..4).prop_map(|(odd, count)| Step::Hold { odd, count }),
        3 => any::<u8>().prop_map(|pick| Step::Fetch { pick }),
        4 => name.clone().prop_map(|name| Step::Declare { name }),
        7 => (name.clone(), prop::sample::select(TARGETS.to_vec()), 1u8..4, delay, any::<bool>()).prop_map(
            |(name, target, count, delay, asked)| Step::Send { name, target, count, delay, asked }
        ),
        9 => (proptest::option::weighted(0.7, name.clone()), any::<u8>(), 0u8..5, any::<bool>())
            .prop_map(|(name, pick, outcome, by_token)| Step::Settle { name, pick, outcome, by_token }),
        6 => (name, proptest::bool::weighted(0.2)).prop_map(|(name, fail)| Step::Discharge { name, fail }),
        3 => (0u64..200).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Leave),
        1 => Just(Step::Crash),
    ]
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Active,
    Deferred,
    Scheduled(u64),
    Dead,
}

impl State {
    /// As a look shows it.
    fn shown(self) -> u8 {
        match self {
            Self::Active | Self::Dead => 0,
            Self::Deferred => 1,
            Self::Scheduled(_) => 2,
        }
    }
}

/// Operation on a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Deed {
    Complete,
    DeadLetter,
    Release,
    Defer,
}

impl Deed {
    fn outcome(self) -> Outcome {
        match self {
            Self::Complete => Outcome::Complete,
            Self::DeadLetter => Outcome::DeadLetter(properties(&[("k", "v")])),
            Self::Release => Outcome::Release(properties(&[])),
            Self::Defer => Outcome::Defer(properties(&[("k", "v")])),
        }
    }
}

/// A message by its place and text.
type Name = (usize, String);

/// A lock that was granted at some time.
#[derive(Clone, Debug)]
struct Grant {
    message: Name,
    token: LockToken,
    /// For settling it as its link would; what is fetched by number has a token only.
    delivery: Option<(QueueId, SequenceNumber, LockId)>,
}

/// Target, text, and due time.
type Sent = (usize, String, Option<u64>);

struct Test {
    broker: Broker,
    messages: BTreeMap<Name, State>,
    /// Token and end of a running lock. In a session the session's end counts.
    locks: BTreeMap<Name, (LockToken, u64)>,
    /// Sessions that are held: until when.
    held: BTreeMap<bool, u64>,
    /// Links in a session, and the deliveries that they were allowed.
    links: BTreeMap<bool, u64>,
    granted: Vec<Grant>,
    open: AllOpen<Sent, Name, Deed>,
    count: u64,
    /// Numbers were given to schedules: those of a rollback stay unused until the next start.
    may_have_gaps: bool,
}

fn is_odd(text: &str) -> bool {
    text.as_bytes().last().is_some_and(|digit| digit % 2 == 1)
}

fn session(odd: bool) -> Box<str> {
    if odd { "odd".into() } else { "even".into() }
}

fn link(odd: bool) -> LinkId {
    LinkId(700 + u32::from(odd))
}

impl Test {
    fn new() -> Self {
        let mut broker = Broker::with(open_in_model::config());
        let plain = EntitySettings {
            lock_duration: Duration::from_millis(LOCK),
            max_delivery_count: 1_000,
            ..EntitySettings::default()
        };
        broker.create("q", plain.clone());
        broker.create("s", EntitySettings { requires_session: true, ..plain.clone() });
        broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
        for name in ["one", "two"] {
            broker.subscribe(name, plain.clone(), vec![rule("all", "", None)]);
        }
        Self {
            broker,
            messages: BTreeMap::new(),
            locks: BTreeMap::new(),
            held: BTreeMap::new(),
            links: BTreeMap::new(),
            granted: Vec::new(),
            open: AllOpen::default(),
            count: 0,
            may_have_gaps: false,
        }
    }

    fn now(&self) -> u64 {
        self.broker.now.as_millis()
    }

    fn take_step(&mut self, step: &Step) {
        match *step {
            Step::Lock { place, count } => {
                let got = self.broker.receive(main_path(PLACES[place]), ReceiveMode::PeekLock, count);
                self.grant(place, got);
            }
            Step::Hold { odd, count } => self.hold(odd, count),
            Step::Fetch { pick } => self.fetch(pick),
            Step::Declare { name } => {
                let done = self.broker.declare_by(ME, TransactionId(name)) == Answered::Done;
                assert_eq!(done, self.open.declare(name));
            }
            Step::Send { name, target, count, delay, asked } => {
                self.send(name, target, count, delay, asked);
            }
            Step::Settle { name, pick, outcome, by_token } => self.settle(name, pick, outcome, by_token),
            Step::Discharge { name, fail } => self.discharge(name, fail),
            Step::Wait { millis } => self.wait(millis),
            Step::Leave => {
                self.broker.leave();
                self.open.clear();
                self.links.clear();
            }
            Step::Crash => {
                self.broker.restart();
                self.open.clear();
                self.locks.clear();
                self.held.clear();
                self.links.clear();
                self.may_have_gaps = false;
            }
        }
        self.broker.run_deadlines();
        // Nobody has credit left; what is told now is that sessions are lost.
        assert!(self.broker.received(ME).is_empty());
        self.come_due();
    }

    /// Activates scheduled messages that are due.
    fn come_due(&mut self) {
        let now = self.now();
        let is_due = |state: &State| matches!(state, State::Scheduled(due) if *due <= now);
        let due: Vec<Name> =
            self.messages.iter().filter(|(_, state)| is_due(state)).map(|(name, _)| name.clone()).collect();
        for (place, text) in due {
            self.messages.remove(&(place, text.clone()));
            self.arrive(place, text, None);
        }
    }

    fn arrive(&mut self, target: usize, text: String, due: Option<u64>) {
        let now = self.now();
        match due.filter(|due| *due > now) {
            Some(due) => drop(self.messages.insert((target, text), State::Scheduled(due))),
            None if target == TOPIC => {
                for copy in COPIES {
                    self.messages.insert((copy, text.clone()), State::Active);
                }
            }
            None => drop(self.messages.insert((target, text), State::Active)),
        }
    }

    fn grant(&mut self, place: usize, got: Vec<Delivery>) {
        for delivery in got {
            let message = (place, text(&delivery));
            assert_eq!(self.messages.get(&message), Some(&State::Active), "{message:?}");
            let lock = delivery.lock.unwrap();
            let before = self.locks.insert(message.clone(), (lock.token, lock.until.as_millis()));
            assert_eq!(before, None, "one lock at a time");
            let delivery = Some((delivery.queue, delivery.sequence, lock.id));
            self.granted.push(Grant { message, token: lock.token, delivery });
        }
    }

    /// Takes a session, or more of the one that is held.
    fn hold(&mut self, odd: bool, count: u64) {
        if !self.links.contains_key(&odd) {
            let told = self.broker.tell(
                ME,
                Command::OpenConsumer {
                    consumer: link(odd),
                    path: main_path("s"),
                    mode: ReceiveMode::PeekLock,
                    unsettled: UnsettledPolicy::KeepLocks,
                    session: Some(SessionWanted::Named(session(odd))),
                    auto_create: false,
                },
            );
            let opened = told.iter().any(|effect| matches!(effect, Effect::ConsumerOpened { .. }));
            let awaited = self.lingering().any(|(_, text)| is_odd(text) == odd);
            assert_eq!(opened, !self.held.contains_key(&odd) && !awaited, "{odd}: {told:?}");
            if !opened {
                return;
            }
            let until = self.now() + LOCK;
            self.held.insert(odd, until);
            self.links.insert(odd, 0);
        }
        let limit = self.links.get_mut(&odd).unwrap();
        *limit += count;
        let credit = Command::Credit { consumer: link(odd), limit: *limit, drain: true };
        let got = deliveries(self.broker.tell(ME, credit));
        assert!(got.iter().all(|delivery| is_odd(&text(delivery)) == odd));
        self.grant(SESSIONS, got);
    }

    /// Messages of lost sessions that open transactions keep.
    fn lingering(&self) -> impl Iterator<Item = &Name> {
        let kept = self.open.iter().filter(|open| !open.over).flat_map(|open| &open.settled);
        kept.filter(|(name, token, _)| name.0 == SESSIONS && !self.is_held(name, *token))
            .map(|(name, ..)| name)
    }

    fn is_held(&self, message: &Name, token: LockToken) -> bool {
        self.locks.get(message).is_some_and(|(held, until)| *held == token && *until > self.now())
    }

    /// Locks a deferred message by its number.
    fn fetch(&mut self, pick: u8) {
        let deferred: Vec<Name> = self
            .messages
            .iter()
            .filter(|((place, _), state)| *place != SESSIONS && **state == State::Deferred)
            .map(|(name, _)| name.clone())
            .collect();
        let Some(at) = usize::from(pick).checked_rem(deferred.len()) else { return };
        let message = deferred[at].clone();
        let path = main_path(PLACES[message.0]);
        let peeked = self.broker.peek(path.clone(), 0, 10_000);
        let number = peeked.iter().find(|it| it.stored.payload == message.1.as_bytes()).unwrap().sequence;
        let fetched = self.broker.fetch(path, &[number.0], false);
        assert_eq!(fetched.is_ok(), !self.locks.contains_key(&message), "{message:?}");
        let Some(lock) = fetched.ok().and_then(|mut got| got.pop()).and_then(|got| got.lock) else { return };
        self.locks.insert(message.clone(), (lock.token, lock.until.as_millis()));
        self.granted.push(Grant { message, token: lock.token, delivery: None });
    }

    fn send(&mut self, name: u64, target: usize, count: u8, delay: Option<u64>, asked: bool) {
        let due = delay.map(|delay| self.now() + delay);
        let sent: Vec<String> = (0..count)
            .map(|_| {
                self.count += 1;
                format!("m{:05}", self.count)
            })
            .collect();
        let message = |text: &String| Message {
            session_id: (target == SESSIONS).then(|| session(is_odd(text))),
            scheduled_enqueue_time: due.map(Timestamp::from_millis),
            ..message(text)
        };
        let (messages, ticket) = (sent.iter().map(message).collect(), self.broker.ticket());
        let schedules = asked && due.is_some();
        let command = if schedules {
            Command::Schedule { path: main_path(PLACES[target]), messages, ticket }
        } else {
            let queue = self.broker.queue(PLACES[target]);
            Command::PublishBatch { queue, messages, ticket: Some(ticket) }
        };
        let transaction = TransactionId(name);
        let told = self.broker.tell(ME, command.within(transaction));
        let taken = told.iter().any(|effect| match effect {
            Effect::Scheduled { ticket: done, sequences } => *done == ticket && sequences.len() == sent.len(),
            Effect::Published { first, last } => (*first, *last) == (ticket, ticket),
            _ => false,
        });
        self.may_have_gaps |= schedules;
        let now = self.now();
        let joined = self.open.joined(name, now);
        assert_eq!(taken, joined.is_some(), "{told:?}");
        if let Some(open) = joined {
            open.sent.extend(sent.into_iter().map(|text| (target, text, due)));
        }
    }

    fn settle(&mut self, name: Option<u64>, pick: u8, outcome: u8, by_token: bool) {
        let Some(place) = usize::from(pick).checked_rem(self.granted.len()) else { return };
        let grant = self.granted[self.granted.len() - 1 - place].clone();
        let Grant { message, token, delivery } = grant;
        let free = self.is_held(&message, token) && !self.open.waits(token);
        let deed = match outcome {
            0 | 1 => Deed::Complete,
            2 => Deed::DeadLetter,
            3 => Deed::Release,
            _ => Deed::Defer,
        };
        let (outcome, ticket) = (deed.outcome(), self.broker.ticket());
        let (path, tokens) = (main_path(PLACES[message.0]), vec![token]);
        let command = match (name.map(TransactionId), delivery.filter(|_| !by_token)) {
            (None, None) => Command::SettleByToken { path, session: None, tokens, outcome, ticket },
            (None, Some((queue, sequence, lock))) => {
                Command::Settle { queue, sequence, lock, outcome, ticket: Some(ticket) }
            }
            (Some(transaction), None) => {
                Command::SettleByToken { path, session: None, tokens, outcome, ticket }.within(transaction)
            }
            (Some(transaction), Some((queue, sequence, lock))) => {
                let ticket = Some(ticket);
                let settled = pick % 2 == 1;
                let command = Box::new(Command::Settle { queue, sequence, lock, outcome, ticket });
                Command::Enlist { transaction, command, settled }
            }
        };
        let told = self.broker.tell(ME, command);
        let done = self.broker.answer(ME, ticket, told) == Some(Answered::Done);
        let Some(name) = name else {
            assert_eq!(done, free, "{message:?}");
            if free {
                self.apply(&message, deed);
            }
            return;
        };
        let held = self.is_held(&message, token);
        let repeats = held && self.open.settlement(name, token).is_some_and(|(.., asked)| *asked == deed);
        let joins = free && self.open.takes(name) || repeats;
        assert_eq!(done, joins, "{message:?}");
        let now = self.now();
        match self.open.joined(name, now) {
            _ if repeats => {}
            Some(open) if free => open.settled.push((message, token, deed)),
            _ => drop(self.open.spoil(name)),
        }
    }

    fn apply(&mut self, message: &Name, deed: Deed) {
        self.locks.remove(message);
        match deed {
            Deed::Complete => drop(self.messages.remove(message)),
            Deed::DeadLetter => drop(self.messages.insert(message.clone(), State::Dead)),
            Deed::Defer => drop(self.messages.insert(message.clone(), State::Deferred)),
            Deed::Release => {}
        }
    }

    fn discharge(&mut self, name: u64, fail: bool) {
        let done = self.broker.discharge(TransactionId(name), fail) == Answered::Done;
        let Some(open) = self.open.remove(name) else { return assert!(!done) };
        let possible =
            !open.over && open.settled.iter().all(|(message, token, _)| self.is_held(message, *token));
        assert_eq!(done, fail || possible, "{open:?}");
        if fail || !possible {
            return;
        }
        for (message, _, deed) in open.settled {
            self.apply(&message, deed);
        }
        for (target, text, due) in open.sent {
            self.arrive(target, text, due);
        }
    }

    fn wait(&mut self, millis: u64) {
        self.broker.wait(millis);
        let now = self.now();
        self.held.retain(|_, until| *until > now);
        let held = &self.held;
        self.links.retain(|odd, _| held.contains_key(odd));
        self.locks.retain(|_, (_, until)| *until > now);
        drop(self.open.time_out(now));
    }

    /// The broker shows what the model knows, and would after a crash.
    fn check(&mut self) {
        for (place, name) in PLACES.iter().enumerate() {
            for (dead, path) in [(false, main_path(name)), (true, dead_letters(name))] {
                if place == TOPIC && dead {
                    continue;
                }
                let peeked = self.broker.peek(path, 0, 10_000);
                let shown = peeked.iter().map(|peeked| {
                    (String::from_utf8(peeked.stored.payload.to_vec()).unwrap(), peeked.stored.state)
                });
                let mut shown: Vec<(String, u8)> = shown.collect();
                shown.sort_unstable();
                let there = self
                    .messages
                    .iter()
                    .filter(|((at, _), state)| *at == place && (**state == State::Dead) == dead);
                let expected: Vec<(String, u8)> =
                    there.map(|((_, text), state)| (text.clone(), state.shown())).collect();
                assert_eq!(shown, expected, "{name} dead={dead}");
            }
        }
        let lock = |name: &&str| self.broker.core.entity(name).unwrap().locked;
        let locked: u64 = PLACES.iter().map(lock).sum();
        assert_eq!(locked, (self.locks.len() + self.lingering().count()) as u64);
        assert_eq!(self.broker.core.transactions().0, self.open.len() as u64);
        self.broker.check_liveness();
        let after = self.broker.replayed();
        if !self.may_have_gaps {
            assert_eq!(after.digest(), self.broker.core.digest());
        }
        for name in PLACES {
            let counts = |core: &crate::Core| {
                let view = core.entity(name).unwrap();
                (view.active, view.scheduled, view.deferred, view.dead_letter, view.bytes)
            };
            assert_eq!(counts(&after), counts(&self.broker.core), "{name} after a crash");
        }
    }
}

proptest! {
    #[test]
    fn a_transaction_of_anything_is_all_or_nothing(steps in proptest::collection::vec(step(), 1..60)) {
        let mut test = Test::new();
        for step in &steps {
            test.take_step(step);
            test.check();
        }
    }
}
