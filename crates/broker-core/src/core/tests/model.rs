//! Random commands, time, crashes and cleaning against a model that a page holds.
//!
//! It proves: no accepted message is lost or comes twice; none has two live locks; settled stays settled;
//! counts never fall; numbers never repeat; messages leave in order; the journal alone brings everything back.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;

use super::{harness::*, recovery::clean};
use crate::{
    ClientId, Command, Delivery, Effect, EntityError, EntitySettings, LinkId, Lock, LockLifetime, LockToken,
    Message, Outcome, ReceiveMode, Timestamp, UnsettledPolicy,
};

const LOCK: u64 = 100;
const DELIVERIES_MAX: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    Publish { count: u8, ttl: Option<u16>, delay: Option<u16> },
    Open { client: u64, link: u32 },
    Close { client: u64, link: u32 },
    Credit { client: u64, link: u32, more: u64, drain: bool },
    Budget { client: u64, more: Option<u8> },
    Settle { pick: u8, outcome: u8, by_token: bool },
    Renew { pick: u8 },
    Cancel { pick: u8 },
    Fetch { pick: u8, delete: bool },
    Purge { count: u8 },
    Disconnect { client: u64 },
    Wait { millis: u16 },
    Crash,
    Clean { share: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (client, link) = (1u64..3, 1u32..7);
    let clients = (client.clone(), link);
    prop_oneof![
        4 => (1u8..4, proptest::option::weighted(0.2, 0u16..300), proptest::option::weighted(0.2, 1u16..300))
            .prop_map(|(count, ttl, delay)| Step::Publish { count, ttl, delay }),
        4 => clients.clone().prop_map(|(client, link)| Step::Open { client, link }),
        1 => clients.clone().prop_map(|(client, link)| Step::Close { client, link }),
        5 => (clients, 0u64..5, any::<bool>())
            .prop_map(|((client, link), more, drain)| Step::Credit { client, link, more, drain }),
        1 => (client.clone(), proptest::option::of(0u8..20)).prop_map(|(client, more)| Step::Budget { client, more }),
        8 => (any::<u8>(), 0u8..8, any::<bool>())
            .prop_map(|(pick, outcome, by_token)| Step::Settle { pick, outcome, by_token }),
        1 => any::<u8>().prop_map(|pick| Step::Renew { pick }),
        2 => any::<u8>().prop_map(|pick| Step::Cancel { pick }),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(pick, delete)| Step::Fetch { pick, delete }),
        1 => (0u8..4).prop_map(|count| Step::Purge { count }),
        1 => client.prop_map(|client| Step::Disconnect { client }),
        3 => (0u16..150).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Crash),
        1 => any::<u8>().prop_map(|share| Step::Clean { share }),
    ]
}

/// Role of each link number, for both clients.
fn kind(link: u32) -> (bool, ReceiveMode, UnsettledPolicy) {
    match link {
        1 => (false, ReceiveMode::PeekLock, UnsettledPolicy::KeepLocks),
        2 => (false, ReceiveMode::PeekLock, UnsettledPolicy::Release),
        3 => (false, ReceiveMode::PeekLock, UnsettledPolicy::Fail),
        4 => (false, ReceiveMode::ReceiveAndDelete, UnsettledPolicy::Release),
        5 => (false, ReceiveMode::Browse, UnsettledPolicy::Release),
        _ => (true, ReceiveMode::PeekLock, UnsettledPolicy::Release),
    }
}

/// One message, as the specification sees it.
#[derive(Clone, Debug)]
struct Known {
    dead: bool,
    /// 0 active, 1 deferred, 2 scheduled.
    state: u8,
    failed: u32,
    expires: Option<u64>,
    ttl: Option<u64>,
    due: Option<u64>,
    lock: Option<(Lock, (ClientId, LinkId))>,
    /// Learnt by peeking.
    sequence: Option<u64>,
}

struct Test {
    broker: Broker,
    dead_letter_expired: bool,
    /// The queue has partitions.
    partitioned: bool,
    /// Lock lifetime of links whose policy does not keep their locks.
    hold: LockLifetime,
    known: BTreeMap<String, Known>,
    /// Sequence numbers ever seen in the main store, and whose they were.
    numbers: BTreeMap<u64, String>,
    /// Delivery counts of each link, while it is open.
    links: BTreeMap<(u64, u32), u64>,
    /// Every lock ever granted.
    granted: Vec<Delivery>,
    published: u64,
}

impl Test {
    fn new(dead_letter_expired: bool, partitioned: bool, hold: LockLifetime) -> Self {
        let broker = Broker::with_queue(EntitySettings {
            lock_duration: Duration::from_millis(LOCK),
            hold,
            max_delivery_count: DELIVERIES_MAX,
            dead_letter_on_expiration: dead_letter_expired,
            enable_partitioning: partitioned,
            ..EntitySettings::default()
        });
        Self {
            broker,
            dead_letter_expired,
            partitioned,
            hold,
            known: BTreeMap::new(),
            numbers: BTreeMap::new(),
            links: BTreeMap::new(),
            granted: Vec::new(),
            published: 0,
        }
    }

    fn now(&self) -> u64 {
        self.broker.now.as_millis()
    }

    fn take_step(&mut self, step: &Step) {
        match *step {
            Step::Publish { count, ttl, delay } => {
                self.publish(count, ttl.map(u64::from), delay.map(u64::from));
            }
            Step::Open { client, link } => {
                let (dead, mode, unsettled) = kind(link);
                let path = if dead { dead_letters("q") } else { main_path("q") };
                if self.links.insert((client, link), 0).is_some() {
                    self.forget_link(client, link);
                }
                let consumer = LinkId(link);
                let open = Command::OpenConsumer {
                    consumer,
                    path,
                    mode,
                    unsettled,
                    session: None,
                    auto_create: false,
                };
                self.tell(client, open);
            }
            Step::Close { client, link } => {
                if self.links.remove(&(client, link)).is_some() {
                    self.forget_link(client, link);
                }
                self.tell(client, Command::CloseConsumer { consumer: LinkId(link) });
            }
            Step::Credit { client, link, more, drain } => {
                let Some(count) = self.links.get(&(client, link)) else { return };
                let limit = count + more;
                let told = self.tell(client, Command::Credit { consumer: LinkId(link), limit, drain });
                for effect in told {
                    if let Effect::Drained { count, .. } = effect {
                        assert!(drain && count >= limit);
                    }
                }
            }
            Step::Budget { client, more } => {
                let limit = more.map_or(u64::MAX, u64::from);
                self.tell(client, Command::ByteBudget { limit, min_bytes: 0 });
            }
            Step::Settle { pick, outcome, by_token } => self.settle(pick, outcome, by_token),
            Step::Renew { pick } => self.renew(pick),
            Step::Cancel { pick } => self.cancel(pick),
            Step::Fetch { pick, delete } => self.fetch(pick, delete),
            Step::Purge { count } => self.purge(count),
            Step::Disconnect { client } => {
                for link in 1..7 {
                    if self.links.remove(&(client, link)).is_some() {
                        self.forget_link(client, link);
                    }
                }
                self.tell(client, Command::Disconnect);
                self.tell(client, Command::Connect);
                self.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
            }
            Step::Wait { millis } => self.wait(u64::from(millis)),
            Step::Crash => {
                self.broker.restart();
                self.links.clear();
                self.known.values_mut().for_each(|message| message.lock = None);
            }
            Step::Clean { share } => {
                let records = self.broker.journal.records.len();
                let place = records * usize::from(share) / 256;
                let up_to = *self.broker.journal.records.keys().nth(place).unwrap();
                clean(&mut self.broker, up_to);
            }
        }
    }

    fn tell(&mut self, client: u64, command: Command) -> Vec<Effect> {
        let told = self.broker.tell(ClientId(client), command);
        self.absorb(ClientId(client), &told);
        self.absorb_others();
        told
    }

    fn absorb_others(&mut self) {
        for client in [ME, OTHER] {
            let told = self.broker.take(client);
            self.absorb(client, &told);
        }
    }

    fn publish(&mut self, count: u8, ttl: Option<u64>, delay: Option<u64>) {
        let due = delay.map(|delay| self.now() + delay);
        // Some have no key.
        let key =
            [None, Some("a"), Some("b"), Some("orders")].into_iter().cycle().nth(self.numbers.len() % 4);
        let mut messages = Vec::new();
        for _ in 0..count {
            self.published += 1;
            let id = format!("m{}", self.published);
            let expires = ttl.filter(|_| due.is_none()).map(|ttl| self.now() + ttl.max(1));
            let known = Known {
                dead: false,
                state: if due.is_some() { 2 } else { 0 },
                failed: 0,
                expires,
                ttl,
                due,
                lock: None,
                sequence: None,
            };
            self.known.insert(id.clone(), known);
            messages.push(Message {
                time_to_live: ttl.map(Duration::from_millis),
                scheduled_enqueue_time: due.map(Timestamp::from_millis),
                partition_key: key.flatten().map(Box::from),
                ..message(&id)
            });
        }
        let queue = self.broker.queue("q");
        let ticket = Some(self.broker.ticket());
        self.tell(1, Command::PublishBatch { queue, messages, ticket });
    }

    /// The oracle for locks: what the model believes of a lock once granted.
    fn holds(&self, delivery: &Delivery) -> bool {
        // Ids begin anew after a crash; a token says of which store and message the lock is.
        let token = delivery.lock.unwrap().token;
        let message = self.known.get(&text(delivery));
        let held = message.and_then(|message| message.lock).is_some_and(|(held, _)| held.token == token);
        held && message.is_some_and(|message| message.lock.unwrap().0.until.as_millis() > self.now())
    }

    fn settle(&mut self, pick: u8, outcome: u8, by_token: bool) {
        let Some(place) = usize::from(pick).checked_rem(self.granted.len()) else { return };
        // Mostly one of the latest.
        let delivery = self.granted[self.granted.len() - 1 - place].clone();
        let id = text(&delivery);
        let held = self.holds(&delivery);
        let dead = self.known.get(&id).is_some_and(|message| message.dead);
        let add = properties(&[("k", &id)]);
        let outcome = match outcome {
            0 | 1 => Outcome::Complete,
            2 => Outcome::Abandon(properties(&[])),
            3 => Outcome::Abandon(add),
            4 => Outcome::Release(properties(&[])),
            5 => Outcome::Release(add),
            6 => Outcome::DeadLetter(add),
            _ => Outcome::Defer(add),
        };
        let allowed = held && !(dead && matches!(outcome, Outcome::DeadLetter(_)));
        if allowed {
            self.apply(&id, &outcome);
        }
        let ticket = self.broker.ticket();
        let command = if by_token {
            let tokens = vec![delivery.lock.unwrap().token];
            Command::SettleByToken { path: main_path("q"), session: None, tokens, outcome, ticket }
        } else {
            let (queue, sequence, lock) = (delivery.queue, delivery.sequence, delivery.lock.unwrap().id);
            Command::Settle { queue, sequence, lock, outcome, ticket: Some(ticket) }
        };
        let told = self.tell(1, command);
        let done =
            told.iter().any(|effect| matches!(effect, Effect::Settled { first, .. } if *first == ticket));
        assert_eq!(done, allowed, "{id}: {told:?}");
    }

    fn apply(&mut self, id: &str, outcome: &Outcome) {
        let message = self.known.get_mut(id).unwrap();
        match outcome {
            Outcome::Complete => drop(self.known.remove(id)),
            Outcome::Abandon(_) => self.end_lock(id, true, self.now()),
            Outcome::Release(_) => self.end_lock(id, false, self.now()),
            Outcome::DeadLetter(_) => (message.dead, message.state, message.lock) = (true, 0, None),
            Outcome::Defer(_) => {
                message.state = 1;
                self.end_lock(id, true, self.now());
            }
        }
    }

    fn renew(&mut self, pick: u8) {
        let Some(place) = usize::from(pick).checked_rem(self.granted.len()) else { return };
        let delivery = self.granted[self.granted.len() - 1 - place].clone();
        let held = self.holds(&delivery);
        let until = Timestamp::from_millis(self.now() + LOCK);
        if held {
            let message = self.known.get_mut(&text(&delivery)).unwrap();
            let lock = &mut message.lock.as_mut().unwrap().0;
            // A lock without a timer gets none by being renewed.
            lock.until = if lock.until == Timestamp::MAX { lock.until } else { until };
        }
        let tokens: Vec<LockToken> = vec![delivery.lock.unwrap().token];
        let ticket = self.broker.ticket();
        let told = self.tell(2, Command::RenewLocks { path: main_path("q"), tokens, ticket });
        let renewed = told.iter().any(|effect| matches!(effect, Effect::Renewed(r) if r.until == [until]));
        assert_eq!(renewed, held);
    }

    /// Some message whose number is known.
    fn some(&self, pick: u8) -> Option<(String, Known)> {
        let numbered = self.known.iter().filter(|(_, message)| message.sequence.is_some());
        let all: Vec<_> = numbered.collect();
        let (id, message) = all.get(usize::from(pick).checked_rem(all.len())?)?;
        Some(((*id).clone(), (*message).clone()))
    }

    fn cancel(&mut self, pick: u8) {
        let Some((id, message)) = self.some(pick) else { return };
        let allowed = message.state == 2;
        assert_eq!(self.broker.cancel(&[message.sequence.unwrap()]).is_ok(), allowed, "{id}");
        if allowed {
            self.known.remove(&id);
        }
        self.absorb_others();
    }

    fn fetch(&mut self, pick: u8, delete: bool) {
        let Some((id, message)) = self.some(pick) else { return };
        let path = if message.dead { dead_letters("q") } else { main_path("q") };
        let allowed = message.state == 1 && message.lock.is_none();
        let fetched = self.broker.fetch(path, &[message.sequence.unwrap()], delete);
        assert_eq!(fetched.is_ok(), allowed, "{id}");
        if let Some(fetched) = fetched.ok().and_then(|mut fetched| fetched.pop()) {
            assert_eq!(fetched.stored.delivery_count, message.failed, "{id}");
            let view = self.broker.core.entity("q").unwrap();
            let queue = if message.dead { view.dead_letter_queue } else { view.queue };
            let (consumer, sequence) = (LinkId(0), fetched.sequence);
            if let Some(lock) = fetched.lock {
                self.known.get_mut(&id).unwrap().lock = Some((lock, (ClientId(0), consumer)));
                let lock = Some(lock);
                self.granted.push(Delivery { consumer, queue, sequence, lock, stored: fetched.stored });
            } else {
                self.known.remove(&id);
            }
        }
        self.absorb_others();
    }

    fn purge(&mut self, count: u8) {
        let ready = |message: &Known| !message.dead && message.state == 0 && message.lock.is_none();
        let ready = self.known.iter().filter(|(_, message)| ready(message));
        let mut ids: Vec<_> = ready.map(|(id, message)| (message.sequence.unwrap(), id.clone())).collect();
        ids.sort_unstable();
        ids.truncate(usize::from(count));
        let ticket = self.broker.ticket();
        let (path, before) = (main_path("q"), Timestamp::MAX);
        let purge = Command::DeleteMessages { path, session: None, count: u32::from(count), before, ticket };
        let told = self.tell(1, purge);
        if self.partitioned {
            let refused = |effect: &Effect| {
                matches!(effect, Effect::RequestRefused { error: EntityError::HasPartitions(_), .. })
            };
            assert!(told.iter().any(refused), "{told:?}");
            return;
        }
        let deleted = told.iter().find_map(|effect| match effect {
            Effect::Deleted { count, .. } => Some(*count as usize),
            _ => None,
        });
        assert_eq!(deleted, Some(ids.len()));
        for (_, id) in ids {
            self.known.remove(&id);
        }
    }

    /// A lock ends without a decision.
    fn end_lock(&mut self, id: &str, failed: bool, at: u64) {
        let message = self.known.get_mut(id).unwrap();
        let timed = message.lock.take().is_none_or(|(lock, _)| lock.until != Timestamp::MAX);
        message.failed += u32::from(failed && !(message.dead && timed));
        if !message.dead && failed && message.failed >= DELIVERIES_MAX {
            (message.dead, message.state) = (true, 0);
        }
        self.expire(id, at);
    }

    fn expire(&mut self, id: &str, at: u64) {
        let message = self.known.get_mut(id).unwrap();
        let over = message.expires.is_some_and(|expires| expires <= at);
        if !over || message.dead || message.state != 0 || message.lock.is_some() {
            return;
        }
        if self.dead_letter_expired {
            message.dead = true;
        } else {
            self.known.remove(id);
        }
    }

    fn forget_link(&mut self, client: u64, link: u32) {
        let (_, _, policy) = kind(link);
        if policy == UnsettledPolicy::KeepLocks {
            return;
        }
        let holder = (ClientId(client), LinkId(link));
        let held = |message: &Known| message.lock.is_some_and(|(_, by)| by == holder);
        let ids: Vec<String> = self.known.iter().filter(|(_, m)| held(m)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.end_lock(&id, policy == UnsettledPolicy::Fail, self.now());
        }
    }

    fn wait(&mut self, millis: u64) {
        let end = self.now() + millis;
        while let Some(at) = self.broker.core.deadline().filter(|at| at.as_millis() <= end) {
            self.broker.now = self.broker.now.max(at);
            self.pass_time();
        }
        self.broker.now = Timestamp::from_millis(end);
        self.pass_time();
    }

    fn pass_time(&mut self) {
        let now = self.now();
        let ids: Vec<String> = self.known.keys().cloned().collect();
        for id in ids {
            let message = self.known.get_mut(&id).unwrap();
            if let Some(due) = message.due.filter(|due| *due <= now) {
                (message.state, message.due, message.sequence) = (0, None, None);
                message.expires = message.ttl.map(|ttl| due + ttl.max(1));
            }
            if message.lock.is_some_and(|(lock, _)| lock.until.as_millis() <= now) {
                self.end_lock(&id, true, now);
            } else {
                self.expire(&id, now);
            }
        }
        self.broker.run_deadlines();
        self.absorb_others();
    }

    fn absorb(&mut self, client: ClientId, told: &[Effect]) {
        for effect in told {
            match effect {
                Effect::Delivery(delivery) => self.delivered(client, delivery),
                Effect::Drained { consumer, count } => {
                    self.links.insert((client.0, consumer.0), *count);
                }
                _ => {}
            }
        }
    }

    fn delivered(&mut self, client: ClientId, delivery: &Delivery) {
        let id = text(delivery);
        let message = self.known.get_mut(&id).unwrap_or_else(|| panic!("{id} is settled or was never sent"));
        *self.links.get_mut(&(client.0, delivery.consumer.0)).expect("the link is open") += 1;
        assert_eq!((message.state, message.failed), (0, delivery.stored.delivery_count), "{id}");
        let (dead, mode, policy) = kind(delivery.consumer.0);
        assert_eq!(message.dead, dead, "{id}");
        if mode == ReceiveMode::Browse {
            return;
        }
        assert!(message.lock.is_none(), "{id} has two locks");
        match delivery.lock {
            Some(lock) => {
                let is_timed = policy == UnsettledPolicy::KeepLocks || self.hold == LockLifetime::Lock;
                let end = self.broker.now.after(Duration::from_millis(LOCK));
                assert_eq!(lock.until, if is_timed { end } else { Timestamp::MAX }, "{id}");
                message.lock = Some((lock, (client, delivery.consumer)));
                self.granted.push(delivery.clone());
            }
            None => drop(self.known.remove(&id)),
        }
    }

    /// After each step the broker shows what the model knows, and the journal alone gives the same.
    fn check(&mut self) {
        for dead in [false, true] {
            let path = if dead { dead_letters("q") } else { main_path("q") };
            let peeked = self.broker.peek(path, 0, 10_000);
            let shown: Vec<String> =
                peeked.iter().map(|p| String::from_utf8(p.stored.payload.to_vec()).unwrap()).collect();
            let mut sorted = shown.clone();
            sorted.sort_unstable();
            let expected: Vec<String> = self
                .known
                .iter()
                .filter(|(_, message)| message.dead == dead)
                .map(|(id, _)| id.clone())
                .collect();
            assert_eq!(sorted, expected, "dead letters: {dead}");
            for (id, peeked) in shown.into_iter().zip(peeked) {
                let message = self.known.get_mut(&id).unwrap();
                assert_eq!(
                    (message.state, message.failed),
                    (peeked.stored.state, peeked.stored.delivery_count)
                );
                assert_eq!(
                    *message.sequence.get_or_insert(peeked.sequence.0),
                    peeked.sequence.0,
                    "{id} kept its number"
                );
                let first = self.numbers.entry(peeked.sequence.0).or_insert_with(|| id.clone());
                assert_eq!(*first, id, "a number is used once");
            }
        }
        let locked = self.known.values().filter(|message| message.lock.is_some()).count() as u64;
        let view = self.broker.core.entity("q").unwrap();
        let dead_locked =
            self.known.values().filter(|message| message.dead && message.lock.is_some()).count() as u64;
        assert_eq!(view.locked, locked - dead_locked);
        assert_eq!(self.broker.replayed().digest(), self.broker.core.digest());
        self.broker.check_liveness();
    }

    /// With nobody failing any more, everything comes out once and in order.
    fn drain(&mut self) {
        for client in [1, 2] {
            self.take_step(&Step::Disconnect { client });
        }
        self.wait(LOCK + 1);
        for (path, dead) in [(main_path("q"), false), (dead_letters("q"), true)] {
            let ready = |message: &&Known| message.dead == dead && message.state == 0;
            let mut expected: Vec<u64> =
                self.known.values().filter(ready).map(|m| m.sequence.unwrap()).collect();
            expected.sort_unstable();
            let got = self.broker.receive(path, ReceiveMode::ReceiveAndDelete, u64::MAX);
            let mut got: Vec<_> = got.iter().map(|delivery| delivery.sequence.0).collect();
            // In each partition by number; a stable order by partition keeps that.
            got.sort_by_key(|number| number >> 48);
            assert_eq!(got, expected);
        }
    }
}

proptest! {
    #[test]
    fn the_queue_behaves_as_its_model(
        steps in proptest::collection::vec(step(), 1..150),
        dead_letter_expired: bool,
        partitioned in proptest::bool::weighted(0.3),
        hold in prop_oneof![Just(LockLifetime::Link), Just(LockLifetime::Lock)],
        is_on_disk: bool,
    ) {
        let mut test = Test::new(dead_letter_expired, partitioned, hold);
        test.broker.journal.is_on_disk = is_on_disk;
        for step in &steps {
            test.take_step(step);
            // A lock whose message was read from the disk, to become a dead letter, ends with the work that is due at once.
            test.wait(0);
            test.check();
        }
        test.wait(400);
        test.check();
        test.drain();
    }
}
