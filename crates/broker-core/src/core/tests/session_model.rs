//! Sessions under random commands, time, crashes and cleaning, against a model that looks at everything.
//!
//! It proves: a session has one holder at most; a receiver of any session gets the one with the oldest message; each
//! gets the messages of its session alone, and always the lowest that is ready; locks that end by themselves count and
//! others do not; states survive; the journal alone brings everything back.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use proptest::prelude::*;

use super::{harness::*, recovery::clean};
use crate::{
    AttachError, ClientId, Command, Delivery, Effect, EntitySettings, LinkId, Message, Outcome, Properties,
    ReceiveMode, SessionWanted, SettleError, UnsettledPolicy,
};

const LOCK: u64 = 100;
const DELIVERIES_MAX: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Publish { session: u8, count: u8 },
    Accept { client: u64, link: u32, session: Option<u8> },
    Close { client: u64, link: u32 },
    Disconnect { client: u64 },
    Credit { client: u64, link: u32, more: u64 },
    Settle { pick: u8, outcome: u8 },
    Renew { session: u8 },
    State { session: u8, state: Option<u8> },
    Wait { millis: u16 },
    Crash,
    Clean { share: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (client, link, session) = (1u64..3, 1u32..4, 0u8..4);
    prop_oneof![
        5 => (session.clone(), 1u8..4).prop_map(|(session, count)| Step::Publish { session, count }),
        5 => (client.clone(), link.clone(), proptest::option::of(session.clone()))
            .prop_map(|(client, link, session)| Step::Accept { client, link, session }),
        2 => (client.clone(), link.clone()).prop_map(|(client, link)| Step::Close { client, link }),
        1 => client.clone().prop_map(|client| Step::Disconnect { client }),
        6 => (client, link, 0u64..4).prop_map(|(client, link, more)| Step::Credit { client, link, more }),
        8 => (any::<u8>(), 0u8..6).prop_map(|(pick, outcome)| Step::Settle { pick, outcome }),
        1 => session.clone().prop_map(|session| Step::Renew { session }),
        2 => (session, proptest::option::of(any::<u8>())).prop_map(|(session, state)| Step::State { session, state }),
        3 => (0u16..80).prop_map(|millis| Step::Wait { millis }),
        1 => Just(Step::Crash),
        1 => any::<u8>().prop_map(|share| Step::Clean { share }),
    ]
}

#[derive(Clone, Debug)]
struct Known {
    session: u8,
    deferred: bool,
    failed: u32,
    locked: bool,
    dead: bool,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// `None`: the connection is lost.
    by: Option<(u64, u32)>,
    until: u64,
}

#[derive(Default)]
struct Model {
    /// By sequence number.
    known: BTreeMap<u64, Known>,
    held: BTreeMap<u8, Held>,
    states: BTreeMap<u8, u8>,
    /// Deliveries that each link was given.
    counts: BTreeMap<(u64, u32), u64>,
    granted: Vec<Delivery>,
    published: u64,
}

struct Test {
    broker: Broker,
    model: Model,
}

fn id(session: u8) -> Box<str> {
    format!("s{session}").into()
}

/// The id in one of its spellings, which are the same session.
fn spelled(session: u8, pick: u64) -> Box<str> {
    let id = id(session);
    if pick.is_multiple_of(3) { id.to_uppercase().into() } else { id }
}

impl Model {
    fn first_ready(&self, session: u8) -> Option<u64> {
        let ready =
            |known: &Known| known.session == session && !known.deferred && !known.locked && !known.dead;
        self.known.iter().find(|(_, known)| ready(known)).map(|(sequence, _)| *sequence)
    }

    fn next_available(&self) -> Option<u8> {
        let free = (0..4).filter(|session| !self.held.contains_key(session));
        free.filter_map(|session| Some((self.first_ready(session)?, session)))
            .min()
            .map(|(_, session)| session)
    }

    fn session_of(&self, link: (u64, u32)) -> Option<u8> {
        self.held.iter().find(|(_, held)| held.by == Some(link)).map(|(session, _)| *session)
    }

    fn end(&mut self, session: u8, failed: bool) {
        self.held.remove(&session);
        for known in self.known.values_mut().filter(|known| known.session == session && known.locked) {
            known.return_it(failed);
        }
    }
}

impl Known {
    fn return_it(&mut self, failed: bool) {
        self.locked = false;
        self.failed += u32::from(failed);
        self.dead |= failed && self.failed >= DELIVERIES_MAX;
    }
}

impl Test {
    fn new() -> Self {
        let broker = Broker::with_queue(EntitySettings {
            requires_session: true,
            lock_duration: Duration::from_millis(LOCK),
            max_delivery_count: DELIVERIES_MAX,
            ..EntitySettings::default()
        });
        Self { broker, model: Model::default() }
    }

    fn now(&self) -> u64 {
        self.broker.now.as_millis()
    }

    fn tell(&mut self, client: u64, command: Command) -> Vec<Effect> {
        let told = self.broker.tell(ClientId(client), command);
        self.absorb(client, &told);
        for client in [ME, OTHER] {
            let told = self.broker.take(client);
            self.absorb(client.0, &told);
        }
        told
    }

    fn absorb(&mut self, client: u64, told: &[Effect]) {
        for effect in told {
            let Effect::Delivery(delivery) = effect else { continue };
            let link = (client, delivery.consumer.0);
            let session = self.model.session_of(link).expect("only holders are given messages");
            assert_eq!(
                self.model.first_ready(session),
                Some(delivery.sequence.0),
                "the lowest that is ready"
            );
            *self.model.counts.get_mut(&link).unwrap() += 1;
            let known = self.model.known.get_mut(&delivery.sequence.0).unwrap();
            assert_eq!(delivery.stored.delivery_count, known.failed);
            known.locked = true;
            self.model.granted.push(delivery.clone());
        }
    }

    fn take_step(&mut self, step: &Step) {
        match *step {
            Step::Publish { session, count } => self.publish(session, count),
            Step::Accept { client, link, session } => self.accept(client, link, session),
            Step::Close { client, link } => {
                if let Some(session) = self.model.session_of((client, link)) {
                    self.model.end(session, false);
                }
                self.tell(client, Command::CloseConsumer { consumer: LinkId(link) });
            }
            Step::Disconnect { client } => {
                for held in self.model.held.values_mut() {
                    held.by = held.by.filter(|(holder, _)| *holder != client);
                }
                self.tell(client, Command::Disconnect);
                self.tell(client, Command::Connect);
                self.tell(client, Command::ByteBudget { limit: u64::MAX, min_bytes: 0 });
            }
            Step::Credit { client, link, more } => {
                if self.model.session_of((client, link)).is_some() {
                    let limit = self.model.counts[&(client, link)] + more;
                    self.tell(client, Command::Credit { consumer: LinkId(link), limit, drain: false });
                }
            }
            Step::Settle { pick, outcome } => self.settle(pick, outcome),
            Step::Renew { session } => self.renew(session),
            Step::State { session, state } => self.set_state(session, state),
            Step::Wait { millis } => self.wait(u64::from(millis)),
            Step::Crash => {
                self.broker.restart();
                self.model.held.clear();
                self.model.known.values_mut().for_each(|known| known.locked = false);
            }
            Step::Clean { share } => {
                let place = self.broker.journal.records.len() * usize::from(share) / 256;
                let up_to = *self.broker.journal.records.keys().nth(place).unwrap();
                clean(&mut self.broker, up_to);
            }
        }
    }

    fn publish(&mut self, session: u8, count: u8) {
        let mut messages = Vec::new();
        for _ in 0..count {
            self.model.published += 1;
            let known = Known { session, deferred: false, failed: 0, locked: false, dead: false };
            self.model.known.insert(self.model.published, known);
            messages
                .push(Message { session_id: Some(spelled(session, self.model.published)), ..message("m") });
        }
        let (queue, ticket) = (self.broker.queue("q"), Some(self.broker.ticket()));
        self.tell(1, Command::PublishBatch { queue, messages, ticket });
    }

    fn accept(&mut self, client: u64, link: u32, session: Option<u8>) {
        // A link of the same number is closed first.
        if let Some(session) = self.model.session_of((client, link)) {
            self.model.end(session, false);
        }
        let wanted = match session {
            Some(session) => SessionWanted::Named(id(session)),
            None => SessionWanted::Next { patience: Duration::ZERO },
        };
        let expected = match session {
            Some(session) if self.model.held.contains_key(&session) => {
                Err(AttachError::SessionLocked(id(session)))
            }
            Some(session) => Ok(session),
            None => self.model.next_available().ok_or(AttachError::SessionTimeout),
        };
        if let Ok(session) = expected {
            self.model.held.insert(session, Held { by: Some((client, link)), until: self.now() + LOCK });
            self.model.counts.insert((client, link), 0);
        }
        let (mode, unsettled) = (ReceiveMode::PeekLock, UnsettledPolicy::KeepLocks);
        let (consumer, path, session) = (LinkId(link), main_path("q"), Some(wanted));
        let open = Command::OpenConsumer { consumer, path, mode, unsettled, session, auto_create: false };
        let told = self.tell(client, open);
        let found = told.iter().find_map(|effect| match effect {
            Effect::ConsumerOpened { session, .. } => {
                Some(Ok(session.clone().unwrap().id.to_lowercase().into()))
            }
            Effect::AttachRefused { error, .. } => Some(Err(error.clone())),
            _ => None,
        });
        assert_eq!(found, Some(expected.map(id)));
    }

    fn settle(&mut self, pick: u8, outcome: u8) {
        let Some(place) = usize::from(pick).checked_rem(self.model.granted.len()) else { return };
        let delivery = self.model.granted[self.model.granted.len() - 1 - place].clone();
        let token = delivery.lock.unwrap().token;
        let latest = self.model.granted.iter().rev().find(|it| it.sequence == delivery.sequence).unwrap();
        let is_latest = latest.lock.unwrap().token == token;
        let known = self.model.known.get_mut(&delivery.sequence.0);
        let valid = is_latest && known.as_ref().is_some_and(|known| known.locked);
        let outcome = match outcome {
            0 | 1 => Outcome::Complete,
            2 => Outcome::Abandon(Properties::default()),
            3 => Outcome::Release(Properties::default()),
            4 => Outcome::DeadLetter(Properties::default()),
            _ => Outcome::Defer(Properties::default()),
        };
        if let Some(known) = known.filter(|_| valid) {
            match outcome {
                Outcome::Complete => drop(self.model.known.remove(&delivery.sequence.0)),
                Outcome::Abandon(_) => known.return_it(true),
                Outcome::Release(_) => known.return_it(false),
                Outcome::DeadLetter(_) => (known.dead, known.locked) = (true, false),
                Outcome::Defer(_) => {
                    known.deferred = true;
                    known.return_it(true);
                }
            }
        }
        let (path, tokens, ticket) = (main_path("q"), vec![token], self.broker.ticket());
        let told = self.tell(1, Command::SettleByToken { path, session: None, tokens, outcome, ticket });
        let refused = told.iter().find_map(|effect| match effect {
            Effect::SettleRefused { error, .. } => Some(*error),
            _ => None,
        });
        assert!(matches!(refused, None | Some(SettleError::LockLost | SettleError::SessionLockLost)));
        assert_eq!(refused.is_none(), valid, "{told:?}");
    }

    fn renew(&mut self, session: u8) {
        let until = self.now() + LOCK;
        let Some(held) = self.model.held.get_mut(&session) else { return };
        let Some((client, _)) = held.by else { return };
        held.until = until;
        let (path, ticket) = (main_path("q"), self.broker.ticket());
        let told =
            self.tell(client, Command::RenewSession { path, session: spelled(session, until), ticket });
        let renewed = |effect: &Effect| matches!(effect, Effect::SessionRenewed { until: it, .. } if it.as_millis() == until);
        assert!(told.iter().any(renewed), "{told:?}");
    }

    fn set_state(&mut self, session: u8, state: Option<u8>) {
        let Some((client, _)) = self.model.held.get(&session).and_then(|held| held.by) else { return };
        match state {
            Some(state) => drop(self.model.states.insert(session, state)),
            None => drop(self.model.states.remove(&session)),
        }
        let state = state.map(|byte| Bytes::copy_from_slice(&[byte]));
        let (path, ticket) = (main_path("q"), self.broker.ticket());
        self.tell(client, Command::SetSessionState { path, session: id(session), state, ticket });
    }

    fn wait(&mut self, millis: u64) {
        let end = self.now() + millis;
        while let Some(at) = self.broker.core.deadline().filter(|at| at.as_millis() <= end) {
            self.broker.now = self.broker.now.max(at);
            self.pass_time();
        }
        self.broker.now = crate::Timestamp::from_millis(end);
        self.pass_time();
    }

    fn pass_time(&mut self) {
        let now = self.now();
        let ended: Vec<u8> =
            self.model.held.iter().filter(|(_, held)| held.until <= now).map(|(it, _)| *it).collect();
        for session in ended {
            self.model.end(session, true);
        }
        self.broker.run_deadlines();
        for client in [ME, OTHER] {
            let told = self.broker.take(client);
            self.absorb(client.0, &told);
        }
    }

    fn check(&mut self) {
        for dead in [false, true] {
            let path = if dead { dead_letters("q") } else { main_path("q") };
            let peeked = self.broker.peek(path, 0, 10_000);
            let shown: Vec<_> = peeked
                .iter()
                .map(|it| (it.sequence.0, it.stored.state == 1, it.stored.delivery_count))
                .collect();
            let expected: Vec<_> = self
                .model
                .known
                .iter()
                .filter(|(_, known)| known.dead == dead)
                .map(|(sequence, known)| (*sequence, known.deferred && !dead, known.failed))
                .collect();
            assert_eq!(shown, expected, "dead letters: {dead}");
        }
        for (session, held) in self.model.held.clone() {
            let Some((client, _)) = held.by else { continue };
            let (path, ticket) = (main_path("q"), self.broker.ticket());
            let session_name = spelled(session, ticket.0);
            let get = Command::GetSessionState { path, session: session_name, looks_on: false, ticket };
            let told = self.broker.tell(ClientId(client), get);
            let expected = self.model.states.get(&session).map(|byte| Bytes::copy_from_slice(&[*byte]));
            assert!(
                matches!(&told[..], [Effect::SessionState { state, .. }] if *state == expected),
                "{told:?}"
            );
        }
        assert_eq!(self.broker.replayed().digest(), self.broker.core.digest());
        self.broker.check_liveness();
    }
}

proptest! {
    #[test]
    fn sessions_behave_as_their_model(
        steps in proptest::collection::vec(step(), 1..100),
        is_on_disk: bool,
    ) {
        let mut test = Test::new();
        test.broker.journal.is_on_disk = is_on_disk;
        for step in &steps {
            test.take_step(step);
            test.check();
        }
        test.wait(LOCK);
        test.check();
        prop_assert!(test.model.held.is_empty());
    }
}
