//! Random rules, messages, settlements, crashes and cleaning against a model: each message has exactly the copies
//! that the rules of its moment say, and each copy goes its own way.

use std::{collections::BTreeMap, time::Duration};

use broker_filter::Value;
use proptest::prelude::*;

use super::{harness::*, recovery::clean};
use crate::{Command, Effect, EntitySettings, Message, Outcome, ReceiveMode, Rule, SequenceNumber};

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<i64>),
    AddRule { sub: usize, rule: usize },
    UpdateRule { sub: usize, rule: usize, to: usize },
    RemoveRule { sub: usize, rule: usize },
    Receive { sub: usize, count: u64, outcome: u8 },
    Take { sub: usize, dead: bool, count: u64 },
    Recreate { sub: usize },
    Crash,
    Clean { share: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let sub = 0..NAMES.len();
    prop_oneof![
        5 => proptest::collection::vec(0i64..4, 1..4).prop_map(Step::Send),
        3 => (sub.clone(), 0usize..5).prop_map(|(sub, rule)| Step::AddRule { sub, rule }),
        2 => (sub.clone(), 0usize..5, 0usize..5)
            .prop_map(|(sub, rule, to)| Step::UpdateRule { sub, rule, to }),
        1 => (sub.clone(), 0usize..5).prop_map(|(sub, rule)| Step::RemoveRule { sub, rule }),
        4 => (sub.clone(), 1u64..4, 0u8..5)
            .prop_map(|(sub, count, outcome)| Step::Receive { sub, count, outcome }),
        2 => (sub.clone(), any::<bool>(), 1u64..4).prop_map(|(sub, dead, count)| Step::Take { sub, dead, count }),
        1 => sub.prop_map(|sub| Step::Recreate { sub }),
        1 => Just(Step::Crash),
        1 => any::<u8>().prop_map(|share| Step::Clean { share }),
    ]
}

/// The rules there are, by number.
fn rule_number(number: usize) -> Rule {
    match number {
        0 => rule("r0", "", None),
        1 => rule("r1", "n = 1", None),
        2 => rule("r2", "n > 1", Some("SET seen = n")),
        3 => rule("r3", "", Some("SET sys.Label = 'x'")),
        _ => rule("r4", "n = 3 AND sys.Nope = 1", None),
    }
}

/// Result of a rule for a message: `None` for an error.
fn makes(number: usize, n: i64) -> Option<bool> {
    match number {
        0 | 3 => Some(true),
        1 => Some(n == 1),
        2 => Some(n > 1),
        _ if n == 3 => None,
        _ => Some(false),
    }
}

/// A copy: its text, and the rule whose action changed it.
type Copy = (String, Option<String>);

#[derive(Default)]
struct Subscription {
    /// The number each was made with, which is its name, and that of what it says now.
    rules: Vec<(usize, usize)>,
    live: Vec<Copy>,
    dead: Vec<Copy>,
}

struct Test {
    broker: Broker,
    subs: BTreeMap<&'static str, Subscription>,
    sent: u64,
}

impl Test {
    fn new() -> Self {
        let mut broker = Broker::with_topic(EntitySettings::default());
        let mut subs = BTreeMap::new();
        for name in NAMES {
            broker.subscribe(name, EntitySettings::default(), vec![]);
            subs.insert(name, Subscription::default());
        }
        Self { broker, subs, sent: 0 }
    }

    fn take_step(&mut self, step: &Step) {
        match step {
            Step::Send(numbers) => self.send(numbers),
            Step::AddRule { sub, rule } => {
                let ticket = self.broker.ticket();
                let path = subscription(NAMES[*sub]);
                let done =
                    self.broker.ask(Command::AddRule { path, rule: Box::new(rule_number(*rule)), ticket });
                let rules = &mut self.subs.get_mut(NAMES[*sub]).unwrap().rules;
                assert_eq!(done.is_ok(), !rules.iter().any(|(name, _)| name == rule));
                if done.is_ok() {
                    rules.push((*rule, *rule));
                }
            }
            Step::UpdateRule { sub, rule, to } => {
                let ticket = self.broker.ticket();
                let path = subscription(NAMES[*sub]);
                let changed = Box::new(Rule { name: rule_number(*rule).name, ..rule_number(*to) });
                let done =
                    self.broker.ask(Command::UpdateRule { path, rule: changed, expected: None, ticket });
                let rules = &mut self.subs.get_mut(NAMES[*sub]).unwrap().rules;
                let found = rules.iter_mut().find(|(name, _)| name == rule);
                assert_eq!(done.is_ok(), found.is_some());
                if let Some((_, says)) = found {
                    *says = *to;
                }
            }
            Step::RemoveRule { sub, rule } => {
                let ticket = self.broker.ticket();
                let path = subscription(NAMES[*sub]);
                let name = rule_number(*rule).name;
                let done = self.broker.ask(Command::RemoveRule { path, name, expected: None, ticket });
                let rules = &mut self.subs.get_mut(NAMES[*sub]).unwrap().rules;
                assert_eq!(done.is_ok(), rules.iter().any(|(name, _)| name == rule));
                rules.retain(|(name, _)| name != rule);
            }
            Step::Receive { sub, count, outcome } => self.receive(NAMES[*sub], *count, *outcome),
            Step::Take { sub, dead, count } => {
                let name = NAMES[*sub];
                let path = if *dead { dead_letters_of(name) } else { subscription(name) };
                let got = self.broker.receive(path, ReceiveMode::ReceiveAndDelete, *count);
                let sub = self.subs.get_mut(name).unwrap();
                let store = if *dead { &mut sub.dead } else { &mut sub.live };
                let expected: Vec<Copy> =
                    store.drain(..store.len().min(got.len().max(usize::try_from(*count).unwrap()))).collect();
                assert_eq!(texts(&got), expected.into_iter().map(|(text, _)| text).collect::<Vec<_>>());
            }
            Step::Recreate { sub } => {
                let ticket = self.broker.ticket();
                let name = subscription(NAMES[*sub]).entity;
                self.broker.ask(Command::DeleteEntity { name, expected: None, ticket }).unwrap();
                self.broker.subscribe(NAMES[*sub], EntitySettings::default(), vec![]);
                self.subs.insert(NAMES[*sub], Subscription::default());
            }
            Step::Crash => self.broker.restart(),
            Step::Clean { share } => {
                let place = self.broker.journal.records.len() * usize::from(*share) / 256;
                let up_to = *self.broker.journal.records.keys().nth(place).unwrap();
                clean(&mut self.broker, up_to);
            }
        }
    }

    fn send(&mut self, numbers: &[i64]) {
        let mut messages = Vec::new();
        for n in numbers {
            self.sent += 1;
            let text = format!("m{}", self.sent);
            messages.push(message_with(&text, &[("n", Value::Int(*n))]));
            for sub in self.subs.values_mut() {
                let made: Vec<((usize, usize), Option<bool>)> =
                    sub.rules.iter().map(|rule| (*rule, makes(rule.1, *n))).collect();
                if made.iter().any(|(_, matches)| matches.is_none()) {
                    sub.dead.push((text.clone(), None));
                    continue;
                }
                let mut plain = false;
                for ((rule, says), _) in made.into_iter().filter(|(_, matches)| *matches == Some(true)) {
                    let name = rule_number(says).action.map(|_| format!("r{rule}"));
                    if name.is_some() || !std::mem::replace(&mut plain, true) {
                        sub.live.push((text.clone(), name));
                    }
                }
            }
        }
        self.broker.send(messages);
    }

    /// Locks the first copies and does the same to each.
    fn receive(&mut self, name: &'static str, count: u64, outcome: u8) {
        let got = self.broker.receive(subscription(name), ReceiveMode::PeekLock, count);
        let sub = self.subs.get_mut(name).unwrap();
        assert_eq!(got.len(), sub.live.len().min(usize::try_from(count).unwrap()));
        let copies: Vec<Copy> = sub.live.drain(..got.len()).collect();
        for (delivery, copy) in got.iter().zip(copies).rev() {
            assert_eq!(text(delivery), copy.0);
            assert_eq!(property(&delivery.stored.properties, "RuleName"), copy.1);
            let sub = self.subs.get_mut(name).unwrap();
            let outcome = match outcome {
                0 | 1 => Outcome::Complete,
                2 => {
                    sub.live.insert(0, copy);
                    Outcome::Release(properties(&[]))
                }
                3 => {
                    sub.live.insert(0, copy);
                    Outcome::Release(properties(&[("k", "v")]))
                }
                _ => {
                    sub.dead.push(copy);
                    Outcome::DeadLetter(properties(&[("DeadLetterReason", "x")]))
                }
            };
            self.broker.settle(delivery, outcome).unwrap();
        }
    }

    fn check(&mut self) {
        for name in NAMES {
            let sub = self.subs.get_mut(name).unwrap();
            let shown = self.broker.shown_with(subscription(name), "RuleName");
            assert_eq!(shown, sub.live, "{name}");
            // Dead letters stand in the order of their numbers, whenever they died.
            let shown = self.broker.shown_with(dead_letters_of(name), "RuleName");
            let (mut left, mut right) = (shown.clone(), sub.dead.clone());
            left.sort_unstable();
            right.sort_unstable();
            assert_eq!(left, right, "dead letters of {name}");
            sub.dead = shown;
        }
        assert_eq!(self.broker.replayed().digest(), self.broker.core.digest());
        self.broker.check_liveness();
    }
}

proptest! {
    #[test]
    fn every_message_has_the_copies_that_the_rules_say(steps in proptest::collection::vec(step(), 1..60)) {
        let mut test = Test::new();
        for step in &steps {
            test.take_step(step);
            test.check();
        }
        // With every copy taken nothing is left of any message.
        for name in NAMES {
            test.broker.receive(subscription(name), ReceiveMode::ReceiveAndDelete, u64::MAX);
            test.broker.receive(dead_letters_of(name), ReceiveMode::ReceiveAndDelete, u64::MAX);
        }
        prop_assert_eq!(test.broker.core.entity("t").unwrap().bytes, 0);
        test.broker.check_liveness();
    }
}

#[test]
fn a_peek_at_a_topic_looks_at_no_shared_bodies() {
    let mut broker = Broker::with_topic(EntitySettings::default());
    for name in ["a", "b"] {
        broker.subscribe(name, EntitySettings::default(), vec![rule("r", "", None)]);
    }
    let schedule = |broker: &mut Broker, text: &str| {
        let due = Some(broker.now.after(Duration::from_secs(60)));
        broker.send(vec![Message { scheduled_enqueue_time: due, ..message(text) }]);
    };
    schedule(&mut broker, "before any body");
    for _ in 0..25 {
        broker.send((0..500).map(|_| message("shared")).collect());
    }
    schedule(&mut broker, "behind them");
    for _ in 0..2 {
        broker.journal.make_readable();
        let (ticket, path, from) = (broker.ticket(), main_path("t"), SequenceNumber(0));
        let command = Command::Peek { path, session: None, from, count: 5, bytes: u64::MAX, ticket };
        broker.core.handle(broker.now, ME, command, &mut broker.journal);
        assert!(!broker.core.deliver(broker.now, &mut broker.journal), "one call is enough");
        let told = broker.take(ME);
        let [Effect::Peeked { messages, .. }] = &told[..] else { panic!("{told:?}") };
        let numbers: Vec<u64> = messages.iter().map(|message| message.sequence.0).collect();
        assert_eq!(numbers, [1, 12_502], "the scheduled ones");
        broker.restart();
    }
    broker.wait(60_000);
    assert!(broker.peek(main_path("t"), 0, 5).is_empty(), "they are bodies by now");
}
