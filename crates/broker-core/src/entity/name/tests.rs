use super::*;

#[test]
fn names_follow_the_rules_of_service_bus() {
    let long = "a".repeat(NAME_CHARS_MAX);
    let too_long = "a".repeat(NAME_CHARS_MAX + 1);
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
