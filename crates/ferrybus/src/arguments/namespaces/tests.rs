use clap::Parser as _;

use super::*;
use crate::arguments::{Arguments, Command as FerrybusCommand};

fn parse(words: &[&str]) -> Result<NamespaceCommand, String> {
    let all = ["ferrybus", "namespace"].iter().chain(words);
    match Arguments::try_parse_from(all).map_err(|error| error.to_string())?.command {
        Some(FerrybusCommand::Namespace(command)) => Ok(command),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_setting_of_a_namespace_is_an_option() {
    let words = [
        "set",
        "team-a",
        "--hostname",
        "Bus.Example.org",
        "--hostname",
        "10.0.0.7",
        "--weight=3",
        "--max-entities=1000",
        "--max-bytes=10 GiB",
        "--max-connections=none",
        "--max-in-flight-bytes=64MiB",
        "--max-remembered-ids=0",
        "--max-sends-per-second=5000",
        "--hold",
    ];
    let Ok(NamespaceCommand::Set { name, given, hold, no_hold, .. }) = parse(&words) else { panic!() };
    assert_eq!((name.as_str(), hold, no_hold), ("team-a", true, false));
    assert_eq!(given.hostnames, Some(vec!["bus.example.org".into(), "10.0.0.7".into()]));
    assert_eq!(given.weight, Some(3));
    let limits: Vec<_> = given.limits.iter().map(|(limit, number)| (*limit, *number)).collect();
    let numbers = [Some(1_000), Some(10 << 30), None, Some(64 << 20), Some(0), Some(5_000)];
    assert_eq!(limits, NamespaceLimit::ALL.into_iter().zip(numbers).collect::<Vec<_>>());
}

#[test]
fn nothing_is_given_unless_said_and_an_empty_hostname_takes_all_away() {
    let Ok(NamespaceCommand::Set { given, .. }) = parse(&["set", "a"]) else { panic!() };
    assert!(given.is_empty());
    let Ok(NamespaceCommand::Set { given, .. }) = parse(&["set", "a", "--hostname", ""]) else { panic!() };
    assert_eq!(given.hostnames, Some(Vec::new()));
}

#[test]
fn a_setting_outside_of_its_range_is_refused_with_what_was_expected() {
    let cases: [(&[&str], &str); 9] = [
        (&["set", "a", "--weight=0"], "expected 1 to 1000 shares"),
        (&["set", "a", "--weight=none"], "expected a number"),
        (&["set", "a", "--max-entities=0"], "expected 1 to 1000000 entities"),
        (&["set", "a", "--max-bytes=1023"], "expected 1024 to"),
        (&["set", "a", "--max-bytes=lots"], "`lots` is not a size"),
        (&["set", "a", "--hostname=http://a"], "expected the name of a host"),
        (&["set", "a", "--hold", "--no-hold"], "cannot be used with"),
        (&["key", "create", "a", "k"], "--rights"),
        (&["key", "create", "a", "k", "--rights", "sent"], "possible values: send, listen, manage"),
    ];
    for (words, expected) in cases {
        let found = parse(words).unwrap_err();
        assert!(found.contains(expected), "{words:?}: {found}");
    }
    let words = ["key", "create", "a", "k", "--rights", "send,listen"];
    let Ok(NamespaceCommand::Key(NamespaceKeyCommand::Create { rights, .. })) = parse(&words) else {
        panic!()
    };
    assert_eq!(rights, ["send", "listen"]);
}
