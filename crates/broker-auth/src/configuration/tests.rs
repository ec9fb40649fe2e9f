use super::*;
use crate::{Authority, ClientCertificate, Grant, Grants, PeerFacts, Right, Scope, User, sign_token};

const NOW: u64 = 1_000;

fn key(name: &str, texts: &[&str], right: Right, places: &[&str]) -> NamedKey {
    let (primary, secondary) = (Secret::new(texts[0]), texts.get(1).map(|text| Secret::new(*text)));
    NamedKey { name: name.into(), primary, secondary, access: access(right, places) }
}

fn access(right: Right, places: &[&str]) -> Access {
    Access { rights: Rights::NONE.with(right), scopes: places.iter().map(|place| Scope::of(place)).collect() }
}

fn keys(keys: &[NamedKey]) -> Authority {
    Authority::new(Credentials { keys: keys.to_vec(), ..Credentials::default() })
}

/// The grant of a token for `place` that this text of this key has signed.
fn grant(authority: &Authority, name: &str, text: &str, place: &str) -> Grant {
    let token = sign_token(&format!("sb://h/{place}"), name, &Secret::new(text), NOW + 60);
    authority.verify_token(&token, "", &format!("sb://h/{place}"), NOW).unwrap()
}

fn permits(grant: &Grant, place: &str, right: Right) -> bool {
    let mut grants = Grants::new(crate::Identity::nobody());
    grants.add(grant.clone(), NOW).unwrap();
    let permitted = grants.allows(&Scope::of(place), right, NOW).is_ok();
    assert_eq!(permitted, grant.permits(&Scope::of(place), right));
    permitted
}

#[test]
fn what_a_token_permits_follows_the_table_of_its_key() {
    let before = key("app", &["one", "two"], Right::Send, &["orders"]);
    let cases = [
        // the keys of the new configuration; what the token of `one` may do at orders: send, receive; whether links are looked at
        (vec![before.clone()], (true, false), false),
        (vec![before.clone(), key("more", &["x"], Right::Manage, &[])], (true, false), false),
        (vec![key("app", &["two", "one"], Right::Send, &["orders"])], (true, false), false),
        (vec![key("app", &["one", "two"], Right::Manage, &["orders"])], (true, true), true),
        (vec![key("app", &["one", "two"], Right::Send, &[])], (true, false), true),
        (vec![key("app", &["one", "two"], Right::Listen, &["orders"])], (false, true), true),
        (vec![key("app", &["one", "two"], Right::Send, &["audit"])], (false, false), true),
        (vec![key("app", &["two"], Right::Send, &["orders"])], (false, false), true),
        (vec![key("app", &["three", "two"], Right::Send, &["orders"])], (false, false), true),
        (vec![key("other", &["one", "two"], Right::Send, &["orders"])], (false, false), true),
        (vec![], (false, false), true),
    ];
    for (number, (new, (send, listen), changed)) in cases.into_iter().enumerate() {
        let authority = keys(std::slice::from_ref(&before));
        let token = grant(&authority, "app", "one", "orders");
        assert!(permits(&token, "orders", Right::Send));
        assert_eq!(authority.reconfigure(&keys(&new)), changed, "case {number}");
        let may = |right| permits(&token, "orders", right);
        assert_eq!((may(Right::Send), may(Right::Listen)), (send, listen), "case {number}");
    }
}

#[test]
fn a_key_that_comes_back_lets_in_again_and_gives_nothing_to_old_tokens() {
    let authority = keys(&[key("app", &["one"], Right::Send, &[])]);
    let lost = grant(&authority, "app", "one", "orders");
    authority.reconfigure(&keys(&[]));
    authority.reconfigure(&keys(&[key("app", &["one"], Right::Send, &[])]));
    assert!(!permits(&lost, "orders", Right::Send));
    assert!(permits(&grant(&authority, "app", "one", "orders"), "orders", Right::Send));
}

#[test]
fn tables_with_the_same_name_and_text_are_told_apart_by_what_they_permit() {
    let [orders, audit] =
        ["orders", "audit"].map(|place| key("app", &["one"], Right::Send, std::slice::from_ref(&place)));
    let authority = keys(&[orders, audit.clone()]);
    let [first, second] = ["orders", "audit"].map(|place| grant(&authority, "app", "one", place));
    authority.reconfigure(&keys(std::slice::from_ref(&audit)));
    assert!(!permits(&first, "orders", Right::Send));
    assert!(permits(&second, "audit", Right::Send));
}

/// An edit of the tables.
type Edit = fn(&mut Credentials);

#[test]
fn log_ins_follow_the_tables_of_users_certificates_and_anonymous_clients() {
    let user = User { name: "u".into(), password: Secret::new("p"), access: access(Right::Send, &[]) };
    let certificate = ClientCertificate { subject: "CN=c".into(), access: access(Right::Send, &[]) };
    let all = Credentials {
        users: vec![user],
        certificates: vec![certificate],
        anonymous: Anonymous::Allow,
        plain_without_tls: true,
        ..Credentials::default()
    };
    let peer = PeerFacts { tls: true, certificate_subject: Some("CN=c".into()), loopback: false };
    let cases: [(&str, Option<&[u8]>, Edit); 4] = [
        ("PLAIN", Some(b"\0u\0p"), |new| new.users.clear()),
        ("PLAIN", Some(b"\0u\0p"), |new| new.users[0].password = Secret::new("other")),
        ("EXTERNAL", None, |new| new.certificates.clear()),
        ("ANONYMOUS", None, |new| new.anonymous = Anonymous::Deny),
    ];
    for (mechanism, response, change) in cases {
        let authority = Authority::new(all.clone());
        let identity = authority.sasl(&peer, mechanism, response, 0).unwrap();
        let allowed = || identity.allows(&Scope::of("orders"), Right::Send);
        assert!(!authority.reconfigure(&Authority::new(all.clone())));
        assert!(allowed(), "{mechanism}");
        let mut new = all.clone();
        change(&mut new);
        assert!(authority.reconfigure(&Authority::new(new)));
        assert!(!allowed(), "{mechanism}");
        let again = authority.sasl(&peer, mechanism, response, 0);
        assert!(again.is_err() || again.is_ok_and(|who| !who.allows(&Scope::of("orders"), Right::Send)));
    }
}

#[test]
fn keys_of_entities_stay_when_the_configuration_changes() {
    let authority = keys(&[key("app", &["one"], Right::Send, &[])]);
    let rule = crate::EntityRule {
        name: "own".into(),
        primary: Secret::new("k"),
        secondary: None,
        rights: Rights::NONE.with(Right::Listen),
    };
    authority.set_entity_rules("orders", vec![rule]);
    let token = grant(&authority, "own", "k", "orders");
    authority.reconfigure(&keys(&[]));
    assert!(permits(&token, "orders", Right::Listen));
    assert!(permits(&grant(&authority, "own", "k", "orders"), "orders", Right::Listen));
}
