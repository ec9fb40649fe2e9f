//! Keys of entities: who watches is told, and the journal brings them back.

use proptest::prelude::*;

use super::harness::*;
use crate::{AccessRight, AuthorizationRule, Command, Effect, EntitySettings, KeyText, Timestamp};

fn rule(name: &str, letter: char, rights: &[AccessRight]) -> AuthorizationRule {
    AuthorizationRule {
        name: name.into(),
        rights: rights.to_vec(),
        primary: KeyText::new(format!("{}=", letter.to_string().repeat(43))),
        secondary: None,
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    }
}

fn with(authorization: Vec<AuthorizationRule>) -> EntitySettings {
    EntitySettings { authorization, ..EntitySettings::default() }
}

/// Entities that the watcher was told, each with the names of its rules.
fn told(broker: &mut Broker) -> Vec<(String, Vec<String>)> {
    let names = |rules: Vec<AuthorizationRule>| rules.into_iter().map(|rule| rule.name.into()).collect();
    let effects = broker.take(OTHER).into_iter();
    effects
        .map(|effect| match effect {
            Effect::KeysChanged { entity, rules } => (entity.into(), names(rules)),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_watcher_is_told_of_each_change_and_of_nothing_else() {
    let mut broker = Broker::new();
    let keys = |letter| vec![rule("till", letter, &[AccessRight::Send])];
    broker.create("early", with(keys('a')));
    assert_eq!(
        broker.core.keys().map(|(name, rules)| (name, rules.len())).collect::<Vec<_>>(),
        [("early", 1)]
    );
    assert!(broker.tell(OTHER, Command::WatchKeys).is_empty());
    broker.create("plain", EntitySettings::default());
    broker.update("plain", EntitySettings { max_delivery_count: 3, ..EntitySettings::default() });
    assert_eq!(told(&mut broker), []);
    let till = |name: &str| (name.to_owned(), vec!["till".to_owned()]);
    broker.create("Late", with(keys('a')));
    broker.update("LATE", with(keys('b')));
    broker.update("late", with(keys('b')));
    assert_eq!(told(&mut broker), [till("Late"), till("Late")], "the last one changed nothing");
    broker.update("late", EntitySettings::default());
    for name in ["early", "late", "plain"] {
        let ticket = broker.ticket();
        broker.tell(ME, Command::DeleteEntity { name: name.into(), expected: None, ticket });
    }
    assert_eq!(told(&mut broker), [("Late".to_owned(), vec![]), ("early".to_owned(), vec![])]);
    assert_eq!(broker.core.keys().count(), 0);
}

#[test]
fn times_of_keys_are_those_of_the_client() {
    let mut broker = Broker::new();
    let (created_at, modified_at) = (Timestamp::from_millis(7), Timestamp::from_millis(9));
    let dated = AuthorizationRule { created_at, modified_at, ..rule("dated", 'a', &[AccessRight::Send]) };
    broker.create("q", with(vec![dated.clone(), rule("other", 'a', &[AccessRight::Send])]));
    broker.wait(1_000);
    broker.update("q", with(vec![rule("other", 'b', &[AccessRight::Send]), dated]));
    let times = |core: &crate::Core| {
        let rules = core.entity("q").unwrap().settings.authorization.clone();
        rules.iter().map(|rule| (rule.created_at, rule.modified_at)).collect::<Vec<_>>()
    };
    let none = (Timestamp::default(), Timestamp::default());
    assert_eq!(times(&broker.core), [none, (created_at, modified_at)]);
    assert_eq!(times(&broker.replayed()), times(&broker.core));
}

fn any_rules() -> impl Strategy<Value = Vec<AuthorizationRule>> {
    let all = vec![AccessRight::Manage, AccessRight::Send, AccessRight::Listen];
    let rights = proptest::sample::subsequence(all, 1..=3).prop_shuffle();
    let letters = (proptest::char::range('a', 'z'), proptest::option::of(proptest::char::range('A', 'Z')));
    let rule = (rights, letters).prop_map(|(rights, (first, second))| AuthorizationRule {
        secondary: second.map(|letter| KeyText::new(format!("{}=", letter.to_string().repeat(43)))),
        ..rule("k", first, &rights)
    });
    proptest::collection::vec(rule, 0..=12).prop_map(|mut rules| {
        for (number, rule) in rules.iter_mut().enumerate() {
            rule.name = format!("k{number}").into();
        }
        rules
    })
}

proptest! {
    #[test]
    fn any_rules_survive_a_crash(sets in proptest::collection::vec(any_rules(), 1..4)) {
        let mut broker = Broker::new();
        broker.create("q", EntitySettings::default());
        for rules in sets {
            broker.wait(1_000);
            broker.update("q", with(rules.clone()));
            let kept = broker.core.entity("q").unwrap().settings.authorization.clone();
            let content = |rules: &[AuthorizationRule]| {
                let content = |it: &AuthorizationRule| (it.name.clone(), it.rights.clone(), it.primary.clone(), it.secondary.clone());
                rules.iter().map(content).collect::<Vec<_>>()
            };
            prop_assert_eq!(content(&kept), content(&rules));
            let again = broker.replayed();
            prop_assert_eq!(&again.entity("q").unwrap().settings.authorization, &kept);
            prop_assert_eq!(again.digest(), broker.core.digest());
        }
    }

    /// A digest that ignores one of them fails.
    #[test]
    fn the_digest_sees_each_key(letter in proptest::char::range('a', 'z')) {
        let digest = |letter| {
            let mut broker = Broker::new();
            broker.create("q", with(vec![rule("k", letter, &[AccessRight::Send])]));
            broker.core.digest()
        };
        prop_assert_eq!(digest(letter) == digest('k'), letter == 'k');
    }
}
