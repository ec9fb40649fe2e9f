use super::*;
use crate::{
    Access,
    principal::{Principal, Proof},
};

fn grant(place: &str, right: Right, expires_at: u64, key: &str) -> Grant {
    let principal = Principal::new(key, Proof::Certificate, Access::namespace(Rights::NONE.with(right)));
    let bases = vec![Basis::Principal(principal)];
    Grant { scope: Scope::of(place), expires_at, key: key.into(), bases }
}

fn with(grants: impl IntoIterator<Item = Grant>) -> Grants {
    let mut all = Grants::new(Identity::nobody());
    for grant in grants {
        all.add(grant, 0).unwrap();
    }
    all
}

#[test]
fn a_grant_counts_for_its_place_and_below_until_it_expires() {
    let grants = with([grant("orders", Right::Listen, 100, "k")]);
    let missing = |right, place| Err(Denied::Missing { right, scope: Scope::of(place) });
    let expired = |place| Err(Denied::Expired { scope: Scope::of(place), expired_at: 100 });
    let cases = [
        ("orders", Right::Listen, 99, Ok(())),
        ("sb://localhost:5672/Orders/", Right::Listen, 99, Ok(())),
        ("orders/$management", Right::Listen, 99, Ok(())),
        ("orders", Right::Listen, 100, expired("orders")),
        ("orders/x", Right::Listen, 101, expired("orders/x")),
        ("orders", Right::Send, 99, missing(Right::Send, "orders")),
        ("orders2", Right::Listen, 99, missing(Right::Listen, "orders2")),
        ("", Right::Listen, 99, missing(Right::Listen, "")),
    ];
    for (place, right, now, expected) in cases {
        assert_eq!(grants.allows(&Scope::of(place), right, now), expected, "{place} {right} {now}");
    }
}

#[test]
fn a_new_token_extends_the_old_one() {
    let mut grants = with([grant("orders", Right::Send, 100, "k")]);
    grants.add(grant("ORDERS", Right::Send, 200, "k"), 50).unwrap();
    assert_eq!(grants.valid_until(&Scope::of("orders"), Right::Send), Some(200));
    assert_eq!(grants.count, 1);
}

#[test]
fn keys_of_one_place_add_up() {
    let grants = with([grant("q", Right::Send, 100, "sender"), grant("q", Right::Listen, 100, "reader")]);
    assert_eq!(grants.allows(&Scope::of("q"), Right::Send, 1), Ok(()));
    assert_eq!(grants.allows(&Scope::of("q"), Right::Listen, 1), Ok(()));
    assert!(grants.allows(&Scope::of("q"), Right::Manage, 1).is_err());
}

#[test]
fn the_longest_of_several_tokens_counts() {
    let grants = with([grant("", Right::Send, 300, "k"), grant("q", Right::Send, 100, "k")]);
    assert_eq!(grants.valid_until(&Scope::of("q"), Right::Send), Some(300));
}

#[test]
fn the_number_of_grants_is_limited_and_expired_ones_make_room() {
    let mut grants = with((0..GRANTS_MAX).map(|n| grant(&format!("q{n}"), Right::Send, 100, "k")));
    assert_eq!(grants.add(grant("more", Right::Send, 200, "k"), 99), Err(TooManyGrants));
    assert_eq!(grants.add(grant("q7", Right::Send, 200, "k"), 99), Ok(()), "a renewal needs no room");
    assert_eq!(grants.add(grant("more", Right::Send, 200, "k"), 100), Ok(()));
    assert_eq!(grants.count, 2);
}

#[test]
fn refusals_say_what_is_missing() {
    let denied = with([]).allows(&Scope::of("orders"), Right::Listen, 0).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "Unauthorized access. 'Listen' claim(s) are required to perform this operation on `orders`."
    );
}
