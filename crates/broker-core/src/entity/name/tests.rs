use proptest::prelude::*;

use super::*;

#[test]
fn service_bus_spells_the_names_that_the_cloud_takes() {
    let long = "a".repeat(SERVICE_BUS_CHARS_MAX);
    let too_long = "a".repeat(SERVICE_BUS_CHARS_MAX + 1);
    let cases = [
        ("a", true),
        ("Orders-2.x_y", true),
        ("team/orders", true),
        ("0", true),
        (&long, true),
        (&too_long, false),
        ("", false),
        ("/orders", false),
        ("orders/", false),
        ("a//b", false),
        ("-orders", false),
        ("orders_", true),
        ("MassTransit/Fault--Orders/Taken--", true),
        ("company.messages~taken", true),
        ("_orders", false),
        ("~orders", false),
        ("orders.", false),
        ("orders/.", false),
        ("or ders", false),
        ("orders$", false),
        ("orders/$DeadLetterQueue", false),
        ("żółw", false),
        ("a\0b", false),
        ("a?b", false),
        ("a#b", false),
        ("a*b", false),
        ("a@b", false),
    ];
    for (name, valid) in cases {
        assert_eq!(is_valid(name), valid, "{name}");
    }
}

#[test]
fn case_does_not_matter() {
    assert_eq!(key("Orders/A"), key("oRDERS/a"));
}

#[test]
fn any_text_that_keeps_its_line_is_a_name() {
    let long = "ö".repeat(NAME_BYTES_MAX / 2);
    let too_long = format!("{long}x");
    let cases = [
        ("orders", Ok(())),
        ("with spaces", Ok(())),
        (" at both ends ", Ok(())),
        ("a, b", Ok(())),
        ("a#b", Ok(())),
        ("a::b", Ok(())),
        ("größe/Ärger", Ok(())),
        ("注文", Ok(())),
        ("👩\u{200d}💻", Ok(())),
        ("a?b=c&d", Ok(())),
        ("50%20off", Ok(())),
        ("a\\b", Ok(())),
        ("a//b", Ok(())),
        ("app://orders/new", Ok(())),
        ("-orders.", Ok(())),
        ("US$", Ok(())),
        ("\"quoted\"", Ok(())),
        ("<&>", Ok(())),
        ("..", Ok(())),
        (&long, Ok(())),
        (&too_long, Err(NameError::TooLong(NAME_BYTES_MAX + 1))),
        ("", Err(NameError::Empty)),
        ("a\nb", Err(NameError::Character('\n'))),
        ("a\0", Err(NameError::Character('\0'))),
        ("a\u{7f}", Err(NameError::Character('\u{7f}'))),
        ("a\u{85}", Err(NameError::Character('\u{85}'))),
        ("a\u{2028}b", Err(NameError::Character('\u{2028}'))),
        ("a\u{202e}b", Err(NameError::Character('\u{202e}'))),
        ("a\u{2066}b", Err(NameError::Character('\u{2066}'))),
        ("a\u{ffff}", Err(NameError::Character('\u{ffff}'))),
        ("/orders", Err(NameError::OuterSlash)),
        ("orders/", Err(NameError::OuterSlash)),
        ("$orders", Err(NameError::Reserved)),
        ("orders/$DeadLetterQueue", Err(NameError::Reserved)),
        ("orders/$x/y", Err(NameError::Reserved)),
        ("t/subscriptions/s", Err(NameError::Subscription)),
        ("größe/Subscriptions/a b", Err(NameError::Subscription)),
    ];
    for (name, expected) in cases {
        assert_eq!(check_name(name), expected, "{name:?}");
    }
}

#[test]
fn letters_beyond_ascii_are_told_apart_by_case_and_form() {
    for (one, other) in [("Größe", "GRÖSSE"), ("ä", "Ä"), ("é", "e\u{301}")] {
        assert_ne!(key(one), key(other));
    }
    assert_eq!(key("GRöSSE"), key("grösse"));
}

#[test]
fn a_subscription_is_in_the_scope_that_its_topic_is_in() {
    for (name, expected) in [
        ("t/Subscriptions/s", true),
        ("t x/Subscriptions/s", false),
        ("t/Subscriptions/s x", false),
        ("$dynamic/0123", false),
    ] {
        assert_eq!(NameScope::ServiceBus.includes(name), expected, "{name}");
        assert!(NameScope::All.includes(name));
    }
}

proptest! {
    #[test]
    fn what_service_bus_can_spell_is_a_name(name in "[a-zA-Z0-9$.~_/-]{0,20}|.{0,20}") {
        let is_of_subscription = split_subscription(&name).is_some();
        prop_assert!(is_of_subscription || !is_service_bus_name(&name) || check_name(&name).is_ok());
    }
}
