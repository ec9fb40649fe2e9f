//! Rules of subscriptions (`docs/features/topics.md`, `docs/features/filters.md`).

use broker_filter::{CorrelationFilter, Filter, Value};

use super::harness::*;
use crate::{
    Command, CoreConfig, Effect, EntityError, EntityKind, EntityPath, EntitySettings, Rule, StoredRule,
};

fn add(broker: &mut Broker, path: EntityPath, rule: Rule) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    broker.ask(Command::AddRule { path, rule: Box::new(rule), ticket })
}

fn update(broker: &mut Broker, path: EntityPath, rule: Rule) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    broker.ask(Command::UpdateRule { path, rule: Box::new(rule), expected: None, ticket })
}

fn remove(broker: &mut Broker, path: EntityPath, name: &str) -> Result<(), EntityError> {
    let ticket = broker.ticket();
    broker.ask(Command::RemoveRule { path, name: name.into(), expected: None, ticket })
}

fn list(broker: &mut Broker, path: EntityPath, skip: u64, top: u64) -> Result<Vec<StoredRule>, EntityError> {
    let ticket = broker.ticket();
    match broker.tell(ME, Command::ListRules { path, skip, top, ticket }).pop() {
        Some(Effect::Rules { rules, .. }) => Ok(rules),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn names(broker: &mut Broker) -> Vec<String> {
    let rules = list(broker, subscription("s"), 0, 99).unwrap();
    rules.into_iter().map(|stored| stored.rule.name.into()).collect()
}

fn subscribed() -> Broker {
    let mut broker = Broker::with_topic(EntitySettings::default());
    broker.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    broker
}

#[test]
fn rules_are_listed_in_the_order_of_their_names() {
    let mut broker = subscribed();
    let made_at = broker.now;
    broker.wait(5);
    add(&mut broker, subscription("s"), rule("b", "x = 1", Some("SET y = 2"))).unwrap();
    add(&mut broker, subscription("S"), rule("a", "x = 3", None)).unwrap();
    add(&mut broker, subscription("s"), rule("C", "x = 4", None)).unwrap();
    // Neither a neighbour's rules nor one that is gone are among them.
    for other in ["r", "t"] {
        broker.create_kind(
            &format!("t/Subscriptions/{other}"),
            EntityKind::Subscription,
            EntitySettings::default(),
        );
        add(&mut broker, subscription(other), rule("b", "x = 5", None)).unwrap();
    }
    for round in 0..2 {
        assert_eq!(names(&mut broker), ["$Default", "a", "b", "C"], "round {round}");
        let all = list(&mut broker, subscription("s"), 0, 99).unwrap();
        assert_eq!(all[0], StoredRule { rule: Rule::default_rule(), created_at: made_at });
        assert_eq!(all[2].rule, rule("b", "x = 1", Some("SET y = 2")));
        let page = list(&mut broker, subscription("s"), 1, 1).unwrap();
        assert_eq!(page, all[1..2]);
        assert_eq!(list(&mut broker, subscription("s"), 3, 100).unwrap(), all[3..]);
        assert!(list(&mut broker, subscription("s"), 4, 100).unwrap().is_empty());
        broker.check_liveness();
        broker.restart();
    }
}

#[test]
fn each_refusal_has_its_reason_and_changes_nothing() {
    let mut broker = subscribed();
    broker.create("q", EntitySettings::default());
    let before = broker.core.digest();
    let long = "x".repeat(51);
    let missing = subscription("none");
    let nowhere = EntityError::NotFound(missing.entity.clone());
    let cases = [
        (subscription("s"), "$default", EntityError::RuleExists("$default".into())),
        (subscription("s"), "", EntityError::InvalidName("".into())),
        (subscription("s"), "$", EntityError::InvalidName("$".into())),
        (subscription("s"), "a/b", EntityError::InvalidName("a/b".into())),
        (subscription("s"), long.as_str(), EntityError::InvalidName(long.as_str().into())),
        (missing.clone(), "r", nowhere.clone()),
        (main_path("t"), "r", EntityError::NotASubscription("t".into())),
        (main_path("q"), "r", EntityError::NotASubscription("q".into())),
    ];
    for (path, name, expected) in cases {
        assert_eq!(add(&mut broker, path, rule(name, "", None)), Err(expected), "{name}");
    }
    let absent = EntityError::RuleNotFound("r".into());
    assert_eq!(remove(&mut broker, subscription("s"), "r"), Err(absent));
    assert_eq!(remove(&mut broker, missing.clone(), "r"), Err(nowhere.clone()));
    let mut filter = CorrelationFilter::new();
    filter.user("x", Value::Text("x".repeat(CoreConfig::default().max_properties_bytes).into()));
    let large = Rule { filter: Filter::Correlation(filter), ..Rule::default_rule() };
    let updates = [
        (subscription("s"), rule("r", "", None), EntityError::RuleNotFound("r".into())),
        (missing.clone(), rule("r", "", None), nowhere.clone()),
        (main_path("t"), rule("$Default", "", None), EntityError::NotASubscription("t".into())),
    ];
    for (path, rule, expected) in updates {
        assert_eq!(update(&mut broker, path, rule), Err(expected));
    }
    let refused = update(&mut broker, subscription("s"), large);
    assert!(matches!(refused, Err(EntityError::OutOfRange { property: "Rule", .. })), "{refused:?}");
    assert_eq!(list(&mut broker, missing, 0, 1), Err(nowhere));
    assert_eq!(broker.core.digest(), before);
}

#[test]
fn rule_changes_concern_later_messages() {
    let mut broker = subscribed();
    broker.send(vec![message("1")]);
    remove(&mut broker, subscription("s"), "$DEFAULT").unwrap();
    broker.send(vec![message("2")]);
    add(&mut broker, subscription("s"), rule("r", "n = 1", None)).unwrap();
    broker.send(vec![message_with("3", &[("n", Value::Int(1))]), message("4")]);
    assert_eq!(broker.shown_texts(subscription("s")), ["1", "3"]);
    broker.restart();
    assert_eq!(names(&mut broker), ["r"]);
    broker.send(vec![message_with("5", &[("n", Value::Int(1))]), message("6")]);
    assert_eq!(broker.shown_texts(subscription("s")), ["1", "3", "5"]);
    broker.check_liveness();
}

#[test]
fn a_name_that_was_freed_can_be_used_again() {
    let mut broker = subscribed();
    for round in 0..3 {
        remove(&mut broker, subscription("s"), "$Default").unwrap();
        assert!(names(&mut broker).is_empty(), "round {round}");
        broker.restart();
        add(&mut broker, subscription("s"), Rule { filter: Filter::False, ..Rule::default_rule() }).unwrap();
        broker.restart();
        assert_eq!(names(&mut broker), ["$Default"], "round {round}");
        broker.check_liveness();
    }
    broker.send(vec![message("m")]);
    assert!(broker.shown_texts(subscription("s")).is_empty());
}

#[test]
fn a_subscription_is_created_with_all_its_rules_or_not_at_all() {
    let mut broker = Broker::with_topic(EntitySettings::default());
    let mut create = |name: &str, rules: Vec<Rule>| {
        let ticket = broker.ticket();
        let (name, settings) = (subscription(name).entity, Box::default());
        broker.ask(Command::CreateSubscription { name, settings, rules, ticket })
    };
    assert_eq!(create("ok", vec![rule("a", "", None), rule("b", "", None)]), Ok(()));
    let twice = vec![rule("a", "", None), rule("A", "", None)];
    assert_eq!(create("bad", twice), Err(EntityError::RuleExists("A".into())));
    assert_eq!(create("bad", vec![rule("?", "", None)]), Err(EntityError::InvalidName("?".into())));
    assert!(broker.core.entity(&subscription("bad").entity).is_none());
    assert!(broker.core.entity(&subscription("ok").entity).is_some());
    broker.check_liveness();
}

#[test]
fn a_topic_has_so_many_rules_at_most() {
    let config = CoreConfig { max_rules_per_topic: 3, max_properties_bytes: 100, ..CoreConfig::default() };
    let mut broker = Broker::with(config);
    broker.create_kind("t", EntityKind::Topic, EntitySettings::default());
    broker.subscribe("r", EntitySettings::default(), vec![rule("a", "", None), rule("b", "", None)]);
    broker.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    let full = EntityError::LimitReached { what: "rules per topic", limit: 3 };
    assert_eq!(add(&mut broker, subscription("s"), rule("c", "", None)), Err(full.clone()));
    let ticket = broker.ticket();
    let name = subscription("u").entity;
    let command = Command::CreateSubscription {
        name,
        settings: Box::default(),
        rules: vec![rule("c", "", None)],
        ticket,
    };
    assert_eq!(broker.ask(command), Err(full));
    remove(&mut broker, subscription("r"), "a").unwrap();
    let long = format!("x = '{}'", "y".repeat(60));
    let refused = add(&mut broker, subscription("s"), rule("c", &long, None));
    assert!(matches!(refused, Err(EntityError::OutOfRange { property: "Rule", .. })), "{refused:?}");
    assert_eq!(add(&mut broker, subscription("s"), rule("c", "x = 'y'", None)), Ok(()));
}

#[test]
fn an_update_keeps_name_order_and_time_and_holds_for_later_messages() {
    let mut broker = subscribed();
    remove(&mut broker, subscription("s"), "$Default").unwrap();
    add(&mut broker, subscription("s"), rule("First", "n = 1", None)).unwrap();
    add(&mut broker, subscription("s"), rule("second", "n = 2", None)).unwrap();
    let before = list(&mut broker, subscription("s"), 0, 9).unwrap();
    broker.wait(5);
    broker.send(vec![
        message_with("one", &[("n", Value::Int(1))]),
        message_with("three", &[("n", Value::Int(3))]),
    ]);
    update(&mut broker, subscription("S"), rule("FIRST", "n = 3", Some("SET y = 2"))).unwrap();
    for round in 0..2 {
        let after = list(&mut broker, subscription("s"), 0, 9).unwrap();
        let expected = StoredRule { rule: rule("First", "n = 3", Some("SET y = 2")), ..before[0].clone() };
        assert_eq!(after, [expected, before[1].clone()], "round {round}");
        broker.check_liveness();
        broker.restart();
    }
    broker.send(vec![message_with("1", &[("n", Value::Int(1))]), message_with("3", &[("n", Value::Int(3))])]);
    assert_eq!(broker.shown_texts(subscription("s")), ["one", "3"]);
}

#[test]
fn a_crash_finds_a_rule_as_it_was_or_as_it_became_and_never_none() {
    let mut broker = subscribed();
    let filters = ["n = 1", "n = 2", "n = 3"];
    let before = broker.journal.records.len();
    add(&mut broker, subscription("s"), rule("r", filters[0], None)).unwrap();
    for filter in &filters[1..] {
        update(&mut broker, subscription("s"), rule("r", filter, None)).unwrap();
    }
    let records: Vec<_> = broker.journal.records.keys().copied().collect();
    let cuts = &records[before..];
    assert_eq!(cuts.len(), filters.len(), "one record for each change");
    for (cut, filter) in cuts.iter().zip(filters).rev() {
        // A crash right after this record leaves no later ones.
        broker.journal.records.split_off(&(cut + 1));
        broker.restart();
        let rules = list(&mut broker, subscription("s"), 1, 9).unwrap();
        let rules: Vec<Rule> = rules.into_iter().map(|stored| stored.rule).collect();
        assert_eq!(rules, [rule("r", filter, None)]);
    }
}

fn show(broker: &mut Broker, path: EntityPath, name: &str) -> Result<Vec<StoredRule>, EntityError> {
    let ticket = broker.ticket();
    match broker.tell(ME, Command::ShowRule { path, name: name.into(), ticket }).pop() {
        Some(Effect::Rules { rules, .. }) => Ok(rules),
        Some(Effect::RequestRefused { error, .. }) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_rule_is_shown_by_its_name() {
    let mut broker = subscribed();
    add(&mut broker, subscription("s"), rule("b", "x = 1", Some("SET y = 2"))).unwrap();
    let all = list(&mut broker, subscription("s"), 0, 99).unwrap();
    assert_eq!(show(&mut broker, subscription("s"), "B"), Ok(vec![all[1].clone()]));
    assert_eq!(show(&mut broker, subscription("S"), "$default"), Ok(vec![all[0].clone()]));
    assert_eq!(show(&mut broker, subscription("s"), "none"), Ok(vec![]));
    let missing = show(&mut broker, subscription("none"), "b");
    assert!(matches!(missing, Err(EntityError::NotFound(_))), "{missing:?}");
}

#[test]
fn an_update_for_another_rule_changes_nothing() {
    let mut broker = subscribed();
    add(&mut broker, subscription("s"), rule("b", "x = 1", None)).unwrap();
    let seen = |broker: &mut Broker| show(broker, subscription("s"), "b").unwrap().remove(0);
    let change = |broker: &mut Broker, expected: &StoredRule, text: &str| {
        let (rule, expected) = (Box::new(rule("B", text, None)), Some(Box::new(expected.clone())));
        let ticket = broker.ticket();
        broker.ask(Command::UpdateRule { path: subscription("s"), rule, expected, ticket })
    };
    let first = seen(&mut broker);
    assert_eq!(change(&mut broker, &first, "x = 2"), Ok(()));
    let second = seen(&mut broker);
    assert_eq!(change(&mut broker, &first, "x = 3"), Err(EntityError::Changed("b".into())));
    assert_eq!(seen(&mut broker), second);
    broker.restart();
    assert_eq!(change(&mut broker, &second, "x = 4"), Ok(()));
    // It is the same again, and another one: made at another time.
    let last = seen(&mut broker);
    broker.wait(1);
    remove(&mut broker, subscription("s"), "b").unwrap();
    add(&mut broker, subscription("s"), rule("b", "x = 4", None)).unwrap();
    assert_eq!(change(&mut broker, &last, "x = 5"), Err(EntityError::Changed("b".into())));
}

#[test]
fn a_rule_is_only_taken_away_as_it_was_looked_at() {
    let mut broker = subscribed();
    let path = || subscription("s");
    let first = list(&mut broker, path(), 0, 1).unwrap().remove(0);
    let take = |broker: &mut Broker, expected: &StoredRule| {
        let (name, ticket) = (expected.rule.name.clone(), broker.ticket());
        let expected = Some(Box::new(expected.clone()));
        broker.ask(Command::RemoveRule { path: path(), name, expected, ticket })
    };
    let other = Rule { filter: Filter::False, ..first.rule.clone() };
    assert_eq!(update(&mut broker, path(), other), Ok(()));
    let before = broker.core.digest();
    assert_eq!(take(&mut broker, &first), Err(EntityError::Changed(first.rule.name.clone())));
    assert_eq!(broker.core.digest(), before);
    let second = list(&mut broker, path(), 0, 1).unwrap().remove(0);
    assert_eq!(take(&mut broker, &second), Ok(()));
    assert_eq!(take(&mut broker, &second), Err(EntityError::RuleNotFound(first.rule.name)));
    assert_eq!(broker.replayed().digest(), broker.core.digest());
}
