use proptest::prelude::*;

use super::*;

#[test]
fn names_are_known_whatever_their_case_and_by_the_wildcard_of_a_certificate() {
    let names = HostNames::from_iter(["Broker.Example.org", "*.bus.example.org"]);
    let cases = [
        ("broker.example.org", true),
        ("BROKER.example.ORG", true),
        ("a.bus.example.org", true),
        ("a.b.bus.example.org", false),
        ("bus.example.org", false),
        ("example.org", false),
        ("broker.example.org.evil.example", false),
        ("", false),
    ];
    for (name, known) in cases {
        assert_eq!(names.contains(name), known, "{name}");
    }
    assert!(!HostNames::default().contains("localhost"));
}

#[test]
fn hosts_are_told_from_what_is_none() {
    let cases = [
        ("localhost", Some(("localhost", None))),
        ("localhost:5672", Some(("localhost", Some(5672)))),
        ("localhost:", Some(("localhost", None))),
        ("10.0.0.7:1", Some(("10.0.0.7", Some(1)))),
        ("[::1]:5672", Some(("::1", Some(5672)))),
        ("[::1]", Some(("::1", None))),
        ("my_host-1.example~", Some(("my_host-1.example~", None))),
        ("", None),
        (":5672", None),
        ("localhost:65536", None),
        ("localhost:x", None),
        ("localhost:5672:1", None),
        ("[::1", None),
        ("[localhost]", None),
        ("[::1]x", None),
        ("host\\queue", None),
        ("host queue", None),
        ("user@host", None),
        ("host#x", None),
        ("b\u{fc}cher.example", None),
    ];
    for (text, expected) in cases {
        assert_eq!(split_authority(text), expected, "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let names = HostNames::from_iter([text.clone()]);
        prop_assert!(names.contains(&text));
        split_authority(&text);
    }
}
