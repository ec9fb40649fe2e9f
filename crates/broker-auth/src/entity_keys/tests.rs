use proptest::prelude::*;

use super::*;
use crate::{
    Access, Anonymous, Authority, Credentials, NamedKey, PeerFacts, SaslError, TokenError, sign_token,
};

const NOW: u64 = 1_000;
const LOCAL: PeerFacts = PeerFacts { tls: false, loopback: true, certificate_subject: None };

fn rights(rights: &[Right]) -> Rights {
    rights.iter().copied().collect()
}

fn rule(name: &str, primary: &str, secondary: Option<&str>, may: &[Right]) -> EntityRule {
    let (primary, secondary) = (Secret::new(primary), secondary.map(Secret::new));
    EntityRule { name: name.into(), primary, secondary, rights: rights(may) }
}

fn authority() -> Authority {
    let root = NamedKey { name: "root".into(), primary: Secret::new("r"), ..NamedKey::development() };
    let authority = Authority::new(Credentials { keys: vec![root], ..Credentials::default() });
    let keys = vec![
        rule("till", "one", Some("two"), &[Right::Send]),
        rule("boss", "b", None, &[Right::Manage]),
        rule("empty", "", Some(""), &[Right::Manage]),
    ];
    assert!(!authority.set_entity_rules("Orders", keys));
    assert!(!authority.set_entity_rules("events", vec![rule("till", "three", None, &[Right::Listen])]));
    authority
}

fn verify(
    authority: &Authority,
    (name, key): (&str, &str),
    resource: &str,
    audience: &str,
) -> Result<crate::Grant, TokenError> {
    let token = sign_token(resource, name, &Secret::new(key), NOW + 60);
    authority.verify_token(&token, "", audience, NOW)
}

#[test]
fn a_key_opens_its_entity_and_what_belongs_to_it() {
    let authority = authority();
    let unknown = || Err(TokenError::UnknownKey);
    let wrong = || Err(TokenError::WrongSignature);
    let audience = || Err(TokenError::WrongAudience);
    let till = ("till", "one");
    let cases = [
        (till, "sb://h/orders", "sb://h/orders", Ok(())),
        (till, "sb://elsewhere/orders", "sb://h/orders", Ok(())),
        (till, "sb://h/", "amqps://h:5671/ORDERS", Ok(())),
        (till, "sb://h/orders", "sb://h/orders/$DeadLetterQueue", Ok(())),
        (till, "sb://h/orders", "sb://h/orders/$Transfer/$DeadLetterQueue/$management", Ok(())),
        (("till", "two"), "sb://h/orders", "sb://h/orders/$management", Ok(())),
        (("boss", "b"), "sb://h/orders", "sb://h/orders", Ok(())),
        (("till", "three"), "sb://h/events", "sb://h/events/Subscriptions/all", Ok(())),
        (("till", "three"), "sb://h/events", "sb://h/events/subscriptions/all/$DeadLetterQueue", Ok(())),
        (("till", "three"), "sb://h/events", "sb://h/events/Subscriptions/all/Rules/r", Ok(())),
        // What only begins alike is something else, and so is what is above.
        (till, "sb://h/", "sb://h/orders/x", unknown()),
        (till, "sb://h/", "sb://h/orders2", unknown()),
        (till, "sb://h/", "sb://h/ordersü", unknown()),
        (("till", "three"), "sb://h/", "sb://h/events/subscriptions/all/x", unknown()),
        (till, "sb://h/", "sb://h/", unknown()),
        (till, "sb://h/", "sb://h/$Resources/queues", unknown()),
        (till, "sb://h/", "sb://h/elsewhere", unknown()),
        // Somebody else's key, or nobody's.
        (("till", "three"), "sb://h/orders", "sb://h/orders", wrong()),
        (("till", "one"), "sb://h/events", "sb://h/events", wrong()),
        (("Till", "one"), "sb://h/orders", "sb://h/orders", unknown()),
        (("empty", ""), "sb://h/orders", "sb://h/orders", unknown()),
        // The token is for another place than it is shown for.
        (till, "sb://h/events", "sb://h/orders", audience()),
        (till, "sb://h/orders/$management", "sb://h/orders", audience()),
    ];
    for (key, resource, place, expected) in cases {
        let judged = verify(&authority, key, resource, place).map(drop);
        assert_eq!(judged, expected, "{key:?} {resource} {place}");
    }
    assert_eq!(
        authority.verify_token(
            &sign_token("sb://h/orders", "till", &Secret::new("one"), NOW),
            "",
            "sb://h/orders",
            NOW
        ),
        Err(TokenError::Expired { expired_at: NOW, now: NOW })
    );
}

#[test]
fn a_key_gives_exactly_its_rights_there() {
    let authority = authority();
    let cases = [
        (("till", "one"), "orders", "orders", [true, false, false]),
        (("till", "one"), "orders", "orders/$deadletterqueue", [true, false, false]),
        (("till", "one"), "orders", "orders/x", [false; 3]),
        (("boss", "b"), "orders", "orders/$management", [true, true, true]),
        (("boss", "b"), "orders", "orders/x", [false; 3]),
        (("till", "three"), "events", "events/subscriptions/s", [false, true, false]),
        (("till", "three"), "events", "events/other", [false; 3]),
    ];
    for (key, audience, place, expected) in cases {
        let mut grants = crate::Grants::new(crate::Identity::nobody());
        grants.add(verify(&authority, key, "sb://h/", &format!("sb://h/{audience}")).unwrap(), NOW).unwrap();
        let scope = Scope::of(place);
        let allowed = [Right::Send, Right::Listen, Right::Manage]
            .map(|right| grants.allows(&scope, right, NOW).is_ok());
        assert_eq!(allowed, expected, "{key:?} {audience} {place}");
    }
}

#[test]
fn names_of_the_namespace_and_of_entities_do_not_get_into_each_others_way() {
    let authority = authority();
    authority.set_entity_rules("orders", vec![rule("root", "own", None, &[Right::Listen])]);
    let send = |key| {
        let grant = verify(&authority, ("root", key), "sb://h/", "sb://h/orders").unwrap();
        grant.permits(&Scope::of("orders"), Right::Send)
    };
    assert!(send("r"));
    assert!(!send("own"));
    // A connection that has put both has both.
    let mut grants = crate::Grants::new(crate::Identity::nobody());
    for key in ["r", "own"] {
        grants.add(verify(&authority, ("root", key), "sb://h/", "sb://h/orders").unwrap(), NOW).unwrap();
    }
    assert!(grants.allows(&Scope::of("orders"), Right::Send, NOW).is_ok());
}

/// What the holders of the keys `one` and `two` may do, after the rules were exchanged for these.
fn after(rules: Vec<EntityRule>) -> (bool, [Rights; 2]) {
    let authority = authority();
    let grants =
        ["one", "two"].map(|key| verify(&authority, ("till", key), "sb://h/", "sb://h/orders").unwrap());
    let lost = authority.set_entity_rules("ORDERS", rules);
    let orders = Scope::of("orders");
    let now = grants.map(|grant| {
        let all = [Right::Send, Right::Listen, Right::Manage];
        all.into_iter().filter(|right| grant.permits(&orders, *right)).collect()
    });
    (lost, now)
}

#[test]
fn who_holds_a_key_has_what_it_permits_now() {
    let send = rights(&[Right::Send]);
    let boss = || rule("boss", "b", None, &[Right::Manage]);
    let cases = [
        ("as they were", vec![rule("till", "one", Some("two"), &[Right::Send]), boss()], (false, [send; 2])),
        (
            "the keys change places",
            vec![rule("till", "two", Some("one"), &[Right::Send]), boss()],
            (false, [send; 2]),
        ),
        (
            "one more right",
            vec![rule("till", "one", Some("two"), &[Right::Send, Right::Listen]), boss()],
            (false, [rights(&[Right::Send, Right::Listen]); 2]),
        ),
        (
            "one key is new",
            vec![rule("till", "one", Some("new"), &[Right::Send]), boss()],
            (true, [send, Rights::NONE]),
        ),
        (
            "another right",
            vec![rule("till", "one", Some("two"), &[Right::Listen]), boss()],
            (true, [rights(&[Right::Listen]); 2]),
        ),
        (
            "another name",
            vec![rule("teller", "one", Some("two"), &[Right::Send]), boss()],
            (true, [Rights::NONE; 2]),
        ),
        ("another rule is gone", vec![rule("till", "one", Some("two"), &[Right::Send])], (true, [send; 2])),
        ("none is left", vec![], (true, [Rights::NONE; 2])),
    ];
    for (what, rules, expected) in cases {
        assert_eq!(after(rules), expected, "{what}");
    }
}

#[test]
fn a_key_that_was_taken_back_and_comes_again_lets_nobody_in_who_lost_it() {
    let authority = authority();
    let grant = verify(&authority, ("till", "one"), "sb://h/", "sb://h/orders").unwrap();
    authority.set_entity_rules("orders", vec![]);
    assert_eq!(verify(&authority, ("till", "one"), "sb://h/", "sb://h/orders"), Err(TokenError::UnknownKey));
    authority.set_entity_rules("orders", vec![rule("till", "one", None, &[Right::Send])]);
    assert!(!grant.permits(&Scope::of("orders"), Right::Send));
    assert!(verify(&authority, ("till", "one"), "sb://h/", "sb://h/orders").is_ok());
}

#[test]
fn name_and_key_log_in_at_every_entity_that_has_them() {
    let authority = authority();
    authority.set_entity_rules("a", vec![rule("till", "one", None, &[Right::Listen])]);
    let log_in = |name: &str, key: &str| {
        authority.sasl(&LOCAL, "PLAIN", Some(format!("\0{name}\0{key}").as_bytes()), 0)
    };
    for (name, key) in [("till", "four"), ("Till", "one"), ("empty", ""), ("boss", "one")] {
        assert_eq!(log_in(name, key), Err(SaslError::WrongCredentials), "{name} {key}");
    }
    let till = log_in("till", "one").unwrap();
    assert_eq!(till.name(), "till");
    let may = |place: &str, right| till.allows(&Scope::of(place), right);
    assert!(may("orders", Right::Send) && may("a/$management", Right::Listen));
    assert!(!may("orders", Right::Listen) && !may("a", Right::Send) && !may("events", Right::Listen));
    assert!(!may("", Right::Send) && !may("orders/x", Right::Send));
    authority.set_entity_rules("orders", vec![]);
    assert!(!till.allows(&Scope::of("orders"), Right::Send), "taken back");
    assert!(till.allows(&Scope::of("a"), Right::Listen));
}

#[test]
fn no_text_of_a_key_is_shown() {
    let authority = authority();
    authority.set_entity_rules("a", vec![rule("till", "very secret", None, &[Right::Listen])]);
    let grant = verify(&authority, ("till", "very secret"), "sb://h/", "sb://h/a").unwrap();
    let identity = authority.sasl(&LOCAL, "PLAIN", Some(b"\0till\0very secret"), 0);
    let shown = format!("{authority:?} {grant:?} {identity:?}");
    assert!(!shown.contains("very secret"), "{shown}");
}

fn some_rules() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    proptest::collection::vec((0..3u8, 0..3u8, 1..8u8), 0..4)
}

proptest! {
    /// Whatever rules an entity had: what a holder may do is what the rules of now say of that name and key, and
    /// whenever somebody lost something that is told.
    #[test]
    fn holders_and_rules_agree(sets in proptest::collection::vec(some_rules(), 1..6)) {
        let authority = Authority::new(Credentials {
            anonymous: Anonymous::Deny,
            keys: vec![NamedKey { access: Access::NONE, ..NamedKey::development() }],
            ..Credentials::default()
        });
        let place = Scope::of("q");
        let mut holders: Vec<((u8, u8), crate::Grant, Rights)> = Vec::new();
        for set in sets {
            // Names once, as entities have them.
            let mut rules: Vec<(u8, u8, u8)> = Vec::new();
            for rule in set {
                if rules.iter().all(|known| known.0 != rule.0) {
                    rules.push(rule);
                }
            }
            let given = rules.iter().map(|(name, key, bits)| {
                let may = [Right::Send, Right::Listen, Right::Manage];
                let may: Vec<Right> = may.into_iter().zip(0..).filter(|(_, bit)| bits >> bit & 1 == 1).map(|it| it.0).collect();
                rule(&format!("n{name}"), &format!("k{key}"), None, &may)
            });
            let lost = authority.set_entity_rules("q", given.collect());
            let now = |grant: &crate::Grant| -> Rights {
                let all = [Right::Send, Right::Listen, Right::Manage];
                all.into_iter().filter(|right| grant.permits(&place, *right)).collect()
            };
            for (of, grant, before) in &mut holders {
                let has = now(grant);
                prop_assert!(lost || has.covers(*before), "{of:?} lost something");
                let rule = rules.iter().find(|(name, key, _)| (*name, *key) == *of);
                // A key that had been taken back stays so for its holders.
                prop_assert!(has.is_empty() || rule.is_some(), "{of:?} has no rule");
                *before = has;
            }
            for (name, key, _) in &rules {
                let grant = verify(&authority, (&format!("n{name}"), &format!("k{key}")), "sb://h/", "sb://h/q").unwrap();
                let has = now(&grant);
                prop_assert!(!has.is_empty());
                holders.push(((*name, *key), grant, has));
            }
        }
    }
}
