//! Lists of entities: complete, in order, and steady while entities come and go.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::harness::*;
use crate::{Command, Effect, EntityKind, EntityQuery, EntitySettings, NameScope, PageStart};

fn names(broker: &mut Broker, query: EntityQuery) -> Vec<String> {
    let ticket = broker.ticket();
    match broker.tell(ME, Command::Describe { query, ticket }).pop() {
        Some(Effect::Described { entities, .. }) => {
            entities.iter().map(|report| report.name.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn queues(start: PageStart, top: u64) -> EntityQuery {
    EntityQuery::Kind { kind: EntityKind::Queue, names: NameScope::ServiceBus, start, top }
}

fn delete(broker: &mut Broker, name: &str) {
    let ticket = broker.ticket();
    broker.ask(Command::DeleteEntity { name: name.into(), expected: None, ticket }).unwrap();
}

/// Pages of `top` by name, with `meanwhile` done after the first.
fn walk(broker: &mut Broker, top: u64, meanwhile: impl FnOnce(&mut Broker)) -> Vec<String> {
    let mut shown = names(broker, queues(PageStart::Skip(0), top));
    meanwhile(broker);
    loop {
        let Some(last) = shown.last() else { return shown };
        let page = names(broker, queues(PageStart::Behind(last.as_str().into()), top));
        if page.is_empty() {
            return shown;
        }
        shown.extend(page);
    }
}

#[test]
fn entities_created_or_deleted_while_a_list_is_read_move_none_of_the_others() {
    for (gone, come) in [("a", "c"), ("e", "a0"), ("f", "z"), ("b", "F0")] {
        let mut broker = Broker::new();
        let there = ["a", "b", "C0", "d", "e", "f", "g"];
        for name in there {
            broker.create(name, EntitySettings::default());
        }
        let shown = walk(&mut broker, 2, |broker| {
            delete(broker, gone);
            broker.create(come, EntitySettings::default());
        });
        for stays in there.into_iter().filter(|name| *name != gone) {
            let times = shown.iter().filter(|name| *name == stays).count();
            assert_eq!(times, 1, "{stays}, while {gone} goes and {come} comes: {shown:?}");
        }
        let keys: Vec<String> = shown.iter().map(|name| name.to_ascii_lowercase()).collect();
        assert!(keys.is_sorted(), "{shown:?}");
    }
}

#[test]
fn each_list_has_its_own_kind() {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.subscribe("b", EntitySettings::default(), Vec::new());
    broker.subscribe("A", EntitySettings::default(), Vec::new());
    // Their names stand below the topic's, and belong to others.
    broker.create("t/subscriptions/a/c", EntitySettings::default());
    broker.create_kind("t/subscriptions/x/t", EntityKind::Topic, EntitySettings::default());
    let name = "t/subscriptions/x/t/Subscriptions/s";
    broker.create_kind(name, EntityKind::Subscription, EntitySettings::default());
    for restarted in [false, true] {
        if restarted {
            broker.restart();
        }
        let start = || PageStart::Skip(0);
        let cases = [
            (queues(start(), 9), vec!["t/subscriptions/a/c"]),
            (
                EntityQuery::Kind { kind: EntityKind::Topic, names: NameScope::All, start: start(), top: 9 },
                vec!["t", "t/subscriptions/x/t"],
            ),
            (
                EntityQuery::Subscriptions { topic: "T".into(), start: start(), top: 9 },
                vec!["t/Subscriptions/A", "t/Subscriptions/b"],
            ),
            (
                EntityQuery::Subscriptions { topic: "t".into(), start: PageStart::Skip(1), top: 9 },
                vec!["t/Subscriptions/b"],
            ),
            (
                EntityQuery::Subscriptions {
                    topic: "t".into(),
                    start: PageStart::Behind("T/subscriptions/a".into()),
                    top: 9,
                },
                vec!["t/Subscriptions/b"],
            ),
            (EntityQuery::Subscriptions { topic: "none".into(), start: start(), top: 9 }, vec![]),
        ];
        for (query, expected) in cases {
            assert_eq!(names(&mut broker, query.clone()), expected, "{query:?}, restarted {restarted}");
        }
    }
    delete(&mut broker, "t");
    let left = EntityQuery::Subscriptions { topic: "t".into(), start: PageStart::Skip(0), top: 9 };
    assert_eq!(names(&mut broker, left), [""; 0]);
    assert_eq!(names(&mut broker, queues(PageStart::Skip(0), 9)), ["t/subscriptions/a/c"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_list_has_every_queue_that_was_made_and_not_deleted_also_after_a_restart(
        changes in proptest::collection::vec((any::<bool>(), "[a-zA-Z]{1,2}"), 0..60),
        skip in 0u64..20,
        restarts in any::<bool>(),
    ) {
        let mut broker = Broker::new();
        let mut expected = BTreeSet::new();
        for (makes, name) in changes {
            let key = name.to_ascii_lowercase();
            if makes && expected.insert(key.clone()) {
                broker.create(&name, EntitySettings::default());
            } else if !makes && expected.remove(&key) {
                delete(&mut broker, &name);
            } else if makes {
                broker.update(&name, EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
            }
        }
        if restarts {
            broker.restart();
        }
        let shown = names(&mut broker, queues(PageStart::Skip(skip), 100));
        let shown: Vec<String> = shown.iter().map(|name| name.to_ascii_lowercase()).collect();
        let skip = usize::try_from(skip).unwrap();
        prop_assert_eq!(shown, expected.into_iter().skip(skip).collect::<Vec<_>>());
    }
}
