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
fn a_name_is_its_own_place_and_never_that_of_a_part_of_it() {
    let names =
        ["a", "a?b", "a//b", "x://a", "sb://host/a", "a b", "größe", "a#b", "a::b", "a%20b", "a\\b", "Ä"];
    for name in names {
        assert_eq!(Scope::of_name(name).as_str(), name);
        for other in names {
            let covered = Scope::of_name(name).covers(&Scope::of_name(other));
            assert_eq!(covered, name == other || (name, other) == ("a", "a//b"), "{name} {other}");
        }
    }
    assert_eq!(Scope::of_name("/Orders/"), Scope::of("orders"));
    assert_eq!(Scope::of_name("a//b").ancestry().collect::<Vec<_>>(), ["a//b", "a", ""]);
    for (text, place) in
        [("Sb://host/a//b", "a/b"), ("a?b", "a?b"), ("app://orders/new", "app://orders/new"), ("/a/", "a")]
    {
        assert_eq!(Scope::of_configured(text).as_str(), place, "{text}");
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

fn resource(text: &str) -> Option<String> {
    Resource::parse(text, &HostNames::from_iter(["myhost", "*.example.org"]))
        .map(|resource| resource.place.as_str().into())
}

#[test]
fn resources_are_places_behind_a_host_or_alone() {
    let cases = [
        // text, place
        ("sb://LocalHost:15672/q1", "q1"),
        ("amqp://localhost", ""),
        ("sb://orders/x", "x"),
        ("localhost:5672", ""),
        ("localhost:5672/audit", "audit"),
        ("localhost/audit", "audit"),
        ("127.0.0.1/audit", "audit"),
        ("[::1]:5672/audit", "audit"),
        ("sb://[::1]/audit", "audit"),
        ("ns.servicebus.windows.net/audit", "audit"),
        ("https://localhost:5300/a%2Fq1?api-version=2017-04", "a/q1"),
        ("sb://localhost/orders%3Fx", "orders?x"),
        ("sb://localhost/%ff", "%ff"),
        ("sb://localhost//a%2F%2fb/", "a//b"),
        ("sb://localhost/gr%C3%B6%C3%9Fe%20x", "größe x"),
        ("orders", "orders"),
        ("orders/x", "orders/x"),
        ("orders.eu/x", "orders.eu/x"),
        ("", ""),
        // Names that the operator gave to the broker.
        ("myhost", ""),
        ("MyHost/orders", "orders"),
        ("bus.example.org", ""),
        ("a.bus.example.org/x", "a.bus.example.org/x"),
        ("otherhost/orders", "otherhost/orders"),
    ];
    for (text, place) in cases {
        assert_eq!(resource(text).as_deref(), Some(place), "{text:?}");
    }
}

#[test]
fn what_has_no_host_where_one_has_to_be_is_no_resource() {
    let cases = [
        "sb://",
        "sb:///",
        "sb:///orders",
        "sb://:5672/orders",
        "sb://localhost\\orders",
        "sb://host\\queue",
        "sb://?x",
        "sb://host orders",
        "sb://user@host/orders",
        "sb://host:port/orders",
        "localhost:\\orders",
        "orders:x",
    ];
    for text in cases {
        assert_eq!(resource(text), None, "{text:?}");
    }
}

#[test]
fn a_signed_entity_never_opens_the_host_of_its_name() {
    // The audience is the client's choice; only the signed text can be trusted.
    let scope = |text: &str| Resource::parse(text, &HostNames::default()).unwrap().place;
    assert!(!scope("orders").covers(&scope("sb://orders/payments")));
    assert!(scope("orders").covers(&scope("sb://localhost/orders")));
}

proptest! {
    #[test]
    fn normalising_twice_changes_nothing(text in "\\PC{0,40}") {
        let once = Scope::of_path(&text);
        prop_assert_eq!(Scope::of_path(once.as_str()), once);
    }

    #[test]
    fn scheme_host_port_case_and_slashes_do_not_matter(path in "[a-z]{1,8}(/[a-z$]{1,8}){0,3}", port in 0_u16..) {
        let plain = resource(&format!("sb://host/{path}"));
        let other = resource(&format!("AMQPS://OTHER:{port}//{}/", path.to_uppercase()));
        prop_assert!(plain.is_some());
        prop_assert_eq!(plain, other);
    }

    #[test]
    fn reading_never_panics(text in "\\PC{0,60}") {
        if let Some(Resource { place, .. }) = Resource::parse(&text, &HostNames::default()) {
            prop_assert!(place.covers(&place));
        }
    }
}
