//! Random transactions over two queues, with lost locks, time-outs, lost clients and crashes, against a model.
//!
//! It proves: a transaction is done whole or not at all, whenever the broker stops; nothing of it is seen before;
//! what it would settle stays locked; and the journal, cut behind any call, gives what was there after that call.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::{
    harness::*,
    open_in_model::{self, AllOpen},
    transacting::*,
};
use crate::{
    Command, Core, CoreConfig, Delivery, EntitySettings, LinkId, LockToken, Outcome, Position, ReceiveMode,
    TransactionId, UnsettledPolicy,
};

const LOCK: u64 = 300;
const QUEUES: [&str; 2] = ["q", "other"];

#[derive(Clone, Debug)]
enum Step {
    Publish { queue: usize },
    Lock { queue: usize, count: u64, plain: bool },
    Declare { name: u64 },
    Send { name: u64, queue: usize, count: u8, waited_for: bool },
    Settle { name: Option<u64>, pick: u8, outcome: u8, settled: bool },
    Spoil { name: u64 },
    Discharge { name: u64, fail: bool },
    Wait { millis: u64 },
    Leave,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let (name, queue) = (1u64..4, 0usize..2);
    prop_oneof![
        3 => queue.clone().prop_map(|queue| Step::Publish { queue }),
        4 => (queue.clone(), 1u64..4, any::<bool>())
            .prop_map(|(queue, count, plain)| Step::Lock { queue, count, plain }),
        4 => name.clone().prop_map(|name| Step::Declare { name }),
        6 => (name.clone(), queue, 1u8..4, any::<bool>())
            .prop_map(|(name, queue, count, waited_for)| Step::Send { name, queue, count, waited_for }),
        8 => (proptest::option::weighted(0.8, name.clone()), any::<u8>(), 0u8..4, any::<bool>())
            .prop_map(|(name, pick, outcome, settled)| Step::Settle { name, pick, outcome, settled }),
        1 => name.clone().prop_map(|name| Step::Spoil { name }),
        5 => (name, proptest::bool::weighted(0.3)).prop_map(|(name, fail)| Step::Discharge { name, fail }),
        3 => (0u64..200).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Leave),
        1 => Just(Step::Crash),
    ]
}

/// Store of a message.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Place {
    queue: usize,
    dead: bool,
}

/// Target and text.
type Sent = (usize, String);
/// Whether it is dead-lettered (`None`: given back).
type Deed = Option<bool>;
/// Its text, and whether its receiver has settled.
type Settled = (String, bool);

/// A running lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Held {
    token: LockToken,
    until: u64,
    /// It is that of a link which gives back what it leaves.
    plain: bool,
}

struct Test {
    broker: Broker,
    messages: BTreeMap<String, Place>,
    locks: BTreeMap<String, Held>,
    granted: Vec<Delivery>,
    open: AllOpen<Sent, Settled, Deed>,
    count: u64,
    /// Links that stay open.
    links: u32,
    /// After each call: where the journal ended, and the digest.
    history: Vec<(u64, u64)>,
}

impl Test {
    fn new() -> Self {
        let mut broker = Broker::with(open_in_model::config());
        for name in QUEUES {
            let lock_duration = Duration::from_millis(LOCK);
            broker.create(
                name,
                EntitySettings { lock_duration, max_delivery_count: 1_000, ..EntitySettings::default() },
            );
        }
        Self {
            broker,
            messages: BTreeMap::new(),
            locks: BTreeMap::new(),
            granted: Vec::new(),
            open: AllOpen::default(),
            count: 0,
            links: 0,
            history: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        self.broker.now.as_millis()
    }

    fn text(&mut self) -> String {
        self.count += 1;
        format!("m{:05}", self.count)
    }

    fn take_step(&mut self, step: &Step) {
        match *step {
            Step::Publish { queue } => {
                let text = self.text();
                let (target, ticket) = (self.broker.queue(QUEUES[queue]), Some(self.broker.ticket()));
                let publish = Command::Publish { queue: target, message: message(&text), ticket };
                self.broker.tell(ME, publish);
                self.messages.insert(text, Place { queue, dead: false });
            }
            Step::Lock { queue, count, plain } => self.lock(queue, count, plain),
            Step::Declare { name } => {
                let done = self.broker.declare_by(ME, TransactionId(name)) == Answered::Done;
                assert_eq!(done, self.open.declare(name));
            }
            Step::Send { name, queue, count, waited_for } => self.send(name, queue, count, waited_for),
            Step::Settle { name, pick, outcome, settled } => self.settle(name, pick, outcome, settled),
            Step::Spoil { name } => {
                self.broker.tell(ME, Command::FailTransaction { transaction: TransactionId(name) });
                self.spoil(name);
            }
            Step::Discharge { name, fail } => self.discharge(name, fail),
            Step::Wait { millis } => self.wait(millis),
            Step::Leave => {
                self.broker.leave();
                self.open.clear();
                self.locks.retain(|_, held| !held.plain);
                self.links = 0;
            }
            Step::Crash => {
                self.broker.restart();
                self.open.clear();
                self.locks.clear();
                self.links = 0;
            }
        }
    }

    fn lock(&mut self, queue: usize, count: u64, plain: bool) {
        let path = main_path(QUEUES[queue]);
        let got = if plain {
            self.links += 1;
            self.broker.open_with(ME, self.links, path, ReceiveMode::PeekLock, UnsettledPolicy::Release);
            self.broker.credit(ME, self.links, count)
        } else {
            self.broker.receive(path, ReceiveMode::PeekLock, count)
        };
        let mut got: std::collections::VecDeque<Delivery> = got.into();
        // A link that has credit left gets what comes later.
        if plain {
            let drain = Command::Credit { consumer: LinkId(self.links), limit: 0, drain: false };
            got.extend(deliveries(self.broker.tell(ME, drain)));
        }
        for delivery in got {
            let text = texts(std::slice::from_ref(&delivery)).remove(0);
            assert_eq!(self.messages[&text], Place { queue, dead: false }, "{text}");
            let lock = delivery.lock.unwrap();
            let held = Held { token: lock.token, until: lock.until.as_millis(), plain };
            assert_eq!(self.locks.insert(text, held), None, "one lock at a time");
            self.granted.push(delivery);
        }
    }

    /// A rolled back message stays with its receiver, unless that has settled it and has no lock that runs on.
    fn roll_back(&mut self, settled: Vec<(Settled, LockToken, Deed)>) {
        for ((text, settled), token, _) in settled {
            if settled && self.locks.get(&text).is_some_and(|held| held.plain && held.token == token) {
                self.locks.remove(&text);
            }
        }
    }

    fn spoil(&mut self, name: u64) {
        let settled = self.open.spoil(name);
        self.roll_back(settled);
    }

    fn send(&mut self, name: u64, queue: usize, count: u8, waited_for: bool) {
        let sent: Vec<String> = (0..count).map(|_| self.text()).collect();
        let id = self.broker.queue(QUEUES[queue]);
        let messages = sent.iter().map(|text| message(text)).collect();
        let asked = self.broker.ticket();
        let ticket = waited_for.then_some(asked);
        let command = Command::PublishBatch { queue: id, messages, ticket };
        let transaction = TransactionId(name);
        let told = self.broker.tell(ME, command.within(transaction));
        let answer = self.broker.answer(ME, asked, told);
        assert_eq!(answer.is_some(), waited_for);
        let now = self.now();
        let joined = self.open.joined(name, now);
        if let Some(answer) = answer {
            assert_eq!(answer == Answered::Done, joined.is_some());
        }
        if let Some(open) = joined {
            open.sent.extend(sent.into_iter().map(|text| (queue, text)));
        }
    }

    fn settle(&mut self, name: Option<u64>, pick: u8, outcome: u8, settled: bool) {
        let Some(place) = usize::from(pick).checked_rem(self.granted.len()) else { return };
        let delivery = self.granted[self.granted.len() - 1 - place].clone();
        let text = texts(std::slice::from_ref(&delivery)).remove(0);
        let token = delivery.lock.unwrap().token;
        let now = self.now();
        let held = self.locks.get(&text).is_some_and(|held| held.token == token && held.until > now);
        let free = held && !self.open.waits(token);
        let (outcome, dead) = match outcome {
            0 | 1 => (Outcome::Complete, Some(false)),
            2 => (Outcome::DeadLetter(properties(&[("k", "v")])), Some(true)),
            _ => (Outcome::Release(properties(&[])), None),
        };
        let Some(name) = name else {
            assert_eq!(self.broker.settle(&delivery, outcome).is_ok(), free, "{text}");
            if free {
                self.apply(&text, dead);
            }
            return;
        };
        let answer = self.broker.settle_in_as(TransactionId(name), &delivery, outcome, settled);
        if let Some(((_, has_settled), _, asked)) = self.open.settlement(name, token)
            && held
            && *asked == dead
        {
            assert_eq!(answer, Answered::Done, "{text}: the same settlement again");
            *has_settled |= settled;
            return;
        }
        let joined = free && self.open.takes(name);
        assert_eq!(answer == Answered::Done, joined, "{text}");
        if joined {
            let open = self.open.joined(name, now).unwrap();
            return open.settled.push(((text, settled), token, dead));
        }
        self.spoil(name);
        if !settled || !held {
            return;
        }
        // It is in another transaction, or in none any more.
        let others: Vec<u64> = (1..4).filter(|other| self.open.settlement(*other, token).is_some()).collect();
        match others.first().and_then(|other| self.open.settlement(*other, token)) {
            Some(((_, has_settled), ..)) => *has_settled = true,
            None => self.roll_back(vec![((text, true), token, dead)]),
        }
    }

    fn apply(&mut self, text: &str, dead: Option<bool>) {
        self.locks.remove(text);
        match dead {
            Some(false) => drop(self.messages.remove(text)),
            Some(true) => self.messages.get_mut(text).unwrap().dead = true,
            None => {}
        }
    }

    fn discharge(&mut self, name: u64, fail: bool) {
        let done = self.broker.discharge(TransactionId(name), fail) == Answered::Done;
        let now = self.now();
        let Some(open) = self.open.remove(name) else { return assert!(!done) };
        let holds = |((text, _), token, _): &(Settled, LockToken, Deed)| {
            self.locks.get(text).is_some_and(|held| held.token == *token && held.until > now)
        };
        let possible = !open.over && open.settled.iter().all(holds);
        assert_eq!(done, fail || possible, "{open:?}");
        if fail || !possible {
            return self.roll_back(open.settled);
        }
        for ((text, _), _, dead) in open.settled {
            self.apply(&text, dead);
        }
        for (queue, text) in open.sent {
            self.messages.insert(text, Place { queue, dead: false });
        }
    }

    fn wait(&mut self, millis: u64) {
        self.broker.wait(millis);
        let now = self.now();
        self.locks.retain(|_, held| held.until > now);
        let late = self.open.time_out(now);
        self.roll_back(late);
    }

    /// The broker shows what the model knows.
    fn check(&mut self) {
        let digest = self.broker.core.digest();
        self.history.push((self.broker.journal.end(), digest));
        for (queue, name) in QUEUES.iter().enumerate() {
            for (dead, path) in [(false, main_path(name)), (true, dead_letters(name))] {
                let peeked = self.broker.peek(path, 0, 10_000);
                let mut shown: Vec<String> =
                    peeked.iter().map(|p| String::from_utf8(p.stored.payload.to_vec()).unwrap()).collect();
                shown.sort_unstable();
                let place = Place { queue, dead };
                let there = self.messages.iter().filter(|(_, at)| **at == place);
                assert_eq!(shown, there.map(|(text, _)| text.clone()).collect::<Vec<_>>(), "{place:?}");
            }
        }
        let locked: u64 = QUEUES.iter().map(|name| self.broker.core.entity(name).unwrap().locked).sum();
        assert_eq!(locked, self.locks.len() as u64);
        assert_eq!(self.broker.core.transactions().0, self.open.len() as u64);
        self.broker.check_liveness();
    }

    /// A crash behind any call finds what was there after it: all of a transaction, or nothing.
    fn check_crashes(&self) {
        for (end, digest) in &self.history {
            let mut core = Core::new(CoreConfig::default());
            for (at, (bytes, index)) in self.broker.journal.records.range(..*end) {
                core.replay(Position(*at), &bytes[..*index], size(bytes)).unwrap();
            }
            core.recovered(&mut Journal::default());
            assert_eq!(core.digest(), *digest, "cut at {end}");
        }
    }
}

proptest! {
    #[test]
    fn a_transaction_is_all_or_nothing(steps in proptest::collection::vec(step(), 1..60)) {
        let mut test = Test::new();
        for step in &steps {
            test.take_step(step);
            test.check();
        }
        test.check_crashes();
    }
}
