//! Times at which entities and rules were made and changed (`docs/features/management-api.md`, "Times").

use super::{harness::*, recovery::clean};
use crate::{Command, Effect, EntityKind, EntitySettings, Rule, Timestamp};

const NAMES: [(&str, EntityKind); 3] =
    [("q", EntityKind::Queue), ("t", EntityKind::Topic), ("t/Subscriptions/s", EntityKind::Subscription)];

fn times(broker: &Broker, name: &str) -> (Timestamp, Timestamp) {
    let view = broker.core.entity(name).unwrap();
    (view.created_at, view.updated_at)
}

/// A crash, and the journal cleaned up before another.
fn restart_twice(broker: &mut Broker) {
    broker.restart();
    let end = broker.journal.end();
    clean(broker, end);
    broker.restart();
}

#[test]
fn an_update_moves_one_time_and_nothing_else_moves_any() {
    let mut broker = Broker::new();
    let made = broker.now;
    for (name, kind) in NAMES {
        broker.create_kind(name, kind, EntitySettings::default());
    }
    broker.wait(1_000);
    broker.publish_all(&["a"]);
    broker.lock_one();
    for (name, _) in NAMES {
        assert_eq!(times(&broker, name), (made, made), "{name}: used");
    }
    restart_twice(&mut broker);
    for (name, _) in NAMES {
        assert_eq!(times(&broker, name), (made, made), "{name}: restarted");
        broker.wait(1_000);
        broker.update(
            name,
            EntitySettings { lock_duration: std::time::Duration::ZERO, ..EntitySettings::default() },
        );
        assert_eq!(times(&broker, name), (made, made), "{name}: an update that was refused");
        broker.update(name, EntitySettings::default());
        let changed = broker.now;
        assert_eq!(times(&broker, name), (made, changed), "{name}: updated");
        broker.wait(1_000);
        restart_twice(&mut broker);
        assert_eq!(times(&broker, name), (made, changed), "{name}: updated and restarted");
    }
}

#[test]
fn a_rule_keeps_the_time_when_it_was_made() {
    let mut broker = Broker::new();
    for (name, kind) in NAMES {
        broker.create_kind(name, kind, EntitySettings::default());
    }
    let made = broker.now;
    let path = main_path("t/Subscriptions/s");
    let seen = |broker: &mut Broker| {
        let (path, ticket) = (path.clone(), broker.ticket());
        match broker.tell(ME, Command::ListRules { path, skip: 0, top: 9, ticket }).pop() {
            Some(Effect::Rules { rules, .. }) => rules[0].created_at,
            other => panic!("{other:?}"),
        }
    };
    broker.wait(1_000);
    let ticket = broker.ticket();
    let rule = Box::new(Rule { filter: broker_filter::Filter::False, ..Rule::default_rule() });
    broker.tell(ME, Command::UpdateRule { path: path.clone(), rule, expected: None, ticket });
    assert_eq!(seen(&mut broker), made);
    restart_twice(&mut broker);
    assert_eq!(seen(&mut broker), made);
    assert_eq!(times(&broker, &path.entity), (made, made), "a rule is none of its subscription's properties");
}
