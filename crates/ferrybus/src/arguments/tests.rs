use clap::CommandFactory as _;

use super::*;

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn serving_needs_no_command() {
    let bare = parse("ferrybus --listen 127.0.0.1:0 --auto-create --queue a --queue b").unwrap();
    assert!(bare.command.is_none());
    assert_eq!(bare.serve.queue, ["a", "b"]);
    assert!(bare.serve.auto_create);
    let Some(Command::Serve(serve)) = parse("ferrybus serve --durability os").unwrap().command else {
        panic!("expected the command `serve`")
    };
    assert_eq!(serve.durability, Some(Durability::Os));
}

#[test]
fn lines_are_accepted_or_refused() {
    let cases = [
        ("ferrybus", true),
        ("ferrybus serve", true),
        ("ferrybus --tls-cert a --tls-key b", true),
        ("ferrybus --tls-cert a", false),
        ("ferrybus --tls-client-ca a", false),
        ("ferrybus --durability sometimes", false),
        ("ferrybus --anonymous allow", true),
        ("ferrybus --queue a send b", false),
        ("ferrybus send orders --body hello --property a=b --property c=", true),
        ("ferrybus send orders --property a", false),
        ("ferrybus send orders --body a --file b", false),
        ("ferrybus send orders --size 1KiB --ttl 30s", true),
        ("ferrybus send orders --ttl 30", false),
        ("ferrybus send", false),
        ("ferrybus receive orders --mode receive-and-delete", true),
        ("ferrybus receive orders --settle dead-letter --reason late", true),
        ("ferrybus receive orders --settle defer", false),
        ("ferrybus receive orders --count -1", false),
        ("ferrybus peek orders --from 7 --count 3 --json", true),
        ("ferrybus bench orders --count 10 --size 64 --window 5", true),
        ("ferrybus cert dev --host broker.local --client till", true),
        ("ferrybus journal check data", true),
        ("ferrybus journal repair data --yes", true),
        ("ferrybus journal", false),
        ("ferrybus nonsense", false),
    ];
    for (line, good) in cases {
        assert_eq!(parse(line).is_ok(), good, "{line}");
    }
}
