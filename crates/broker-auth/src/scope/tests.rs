use proptest::prelude::*;

use super::*;

#[test]
fn spellings_of_one_place_are_equal() {
    let cases = [
        // text, place
        ("", ""),
        ("/", ""),
        ("orders", "orders"),
        ("/orders/", "orders"),
        ("Orders", "orders"),
        ("orders//x", "orders/x"),
        ("sb://localhost:5672/Orders/", "orders"),
        ("amqps://ns.servicebus.windows.net/orders/$DeadLetterQueue", "orders/$deadletterqueue"),
        ("sb://localhost", ""),
        ("sb://localhost/", ""),
        ("https://host/orders?api-version=2021-05", "orders"),
        ("topic/Subscriptions/s", "topic/subscriptions/s"),
        // No scheme: an address is a path, whatever its first segment looks like.
        ("localhost/orders", "localhost/orders"),
        ("://x", ":/x"),
    ];
    for (text, place) in cases {
        assert_eq!(Scope::of(text).as_str(), place, "{text:?}");
    }
}

#[test]
fn a_place_covers_itself_and_what_is_below() {
    let cases = [
        ("", "", true),
        ("", "orders", true),
        ("orders", "", false),
        ("orders", "orders", true),
        ("orders", "orders/$management", true),
        ("orders", "orders2", false),
        ("orders", "orders-eu/x", false),
        ("orders/a", "orders", false),
        ("orders/a", "orders/b", false),
    ];
    for case @ (upper, lower, expected) in cases {
        assert_eq!(Scope::of(upper).covers(&Scope::of(lower)), expected, "{case:?}");
    }
}

#[test]
fn ancestry_climbs_to_the_namespace() {
    let scope = Scope::of("a/b/c");
    assert_eq!(scope.ancestry().collect::<Vec<_>>(), ["a/b/c", "a/b", "a", ""]);
    assert_eq!(Scope::namespace().ancestry().collect::<Vec<_>>(), [""]);
}

#[test]
fn resources_know_host_and_path_apart() {
    let cases = [
        // text, host, place
        ("sb://LocalHost:15672/q1", Some("localhost"), "q1"),
        ("amqp://localhost", Some("localhost"), ""),
        ("sb://orders/x", Some("orders"), "x"),
        ("localhost:5672", Some("localhost"), ""),
        ("localhost:5672/audit", Some("localhost"), "audit"),
        ("localhost/audit", Some("localhost"), "audit"),
        ("127.0.0.1/audit", Some("127.0.0.1"), "audit"),
        ("[::1]:5672/audit", Some("[::1]"), "audit"),
        ("sb://[::1]/audit", Some("[::1]"), "audit"),
        ("ns.servicebus.windows.net/audit", Some("ns.servicebus.windows.net"), "audit"),
        ("https://localhost:5300/a%2Fq1?api-version=2017-04", Some("localhost"), "a/q1"),
        ("sb://localhost/orders%3Fx", Some("localhost"), "orders?x"),
        ("sb://localhost/%ff", Some("localhost"), "%ff"),
        ("orders", None, "orders"),
        ("orders/x", None, "orders/x"),
        ("orders.eu/x", None, "orders.eu/x"),
        ("", None, ""),
    ];
    for case @ (text, host, place) in cases {
        let resource = Resource::parse(text);
        assert_eq!((resource.host.as_deref(), resource.scope.as_str()), (host, place), "{case:?}");
    }
}

#[test]
fn a_signed_entity_never_opens_the_host_of_its_name() {
    // The audience is the client's choice; only the signed text can be trusted.
    assert!(!Resource::parse("orders").covers(&Resource::parse("sb://orders/payments")));
    assert!(Resource::parse("orders").covers(&Resource::parse("sb://localhost/orders")));
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(text in "\\PC{0,40}") {
        let once = Scope::of_path(&text);
        prop_assert_eq!(Scope::of_path(once.as_str()), once);
    }

    #[test]
    fn scheme_port_case_and_slashes_do_not_matter(path in "[a-z]{1,8}(/[a-z$]{1,8}){0,3}", port in 0_u16..) {
        let plain = Resource::parse(&format!("sb://host/{path}"));
        let other = Resource::parse(&format!("AMQPS://HOST:{port}//{}/", path.to_uppercase()));
        prop_assert_eq!(plain, other);
    }

    #[test]
    fn reading_never_panics(text in "\\PC{0,60}") {
        let resource = Resource::parse(&text);
        prop_assert!(resource.covers(&resource));
    }
}
