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
        ("ferrybus --tls-certificate a --tls-key b", true),
        ("ferrybus --tls-cert a --tls-key b", true),
        ("ferrybus --tls-cert a", false),
        ("ferrybus --tls-key b", false),
        ("ferrybus --tls-certificate a --tls-cert a --tls-key b", false),
        ("ferrybus --data a --data-dir b", false),
        ("ferrybus --log info --log-level info", false),
        ("ferrybus --tls-certificate a", false),
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

/// Each command that does something itself, by its words.
fn commands(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let words = format!("{words} {}", inner.get_name());
        if inner.has_subcommands() {
            commands(inner, &words, found);
        } else {
            found.push((words, inner.clone()));
        }
    }
}

#[test]
fn each_command_that_tells_something_tells_it_as_json_too() {
    // A broker tells what it does in its log, which has `--log-format json`; the other two print files for other programs.
    let without = ["ferrybus serve", "ferrybus completions", "ferrybus man"];
    let mut found = Vec::new();
    commands(&Arguments::command(), "ferrybus", &mut found);
    assert!(found.len() > 40, "{}", found.len());
    for (words, command) in found {
        let has = command.get_arguments().any(|argument| argument.get_id() == "json");
        assert_eq!(has, !without.contains(&words.as_str()), "{words}");
    }
}

#[test]
fn each_slip_is_told_with_the_nearest_right_word() {
    let mut found = Vec::new();
    commands(&Arguments::command(), "ferrybus", &mut found);
    for (words, command) in &found {
        for argument in command.get_arguments().filter_map(clap::Arg::get_long).filter(|long| long.len() > 3)
        {
            // The last two characters in the wrong order; the same words would be no slip.
            let mut characters: Vec<char> = argument.chars().collect();
            let last = characters.len() - 1;
            characters.swap(last - 1, last);
            let slip: String = characters.into_iter().collect();
            if slip == argument {
                continue;
            }
            let told = parse(&format!("{words} --{slip}")).unwrap_err().to_string();
            assert!(told.contains(&format!("'--{argument}'")), "{words} --{slip}: {told}");
        }
        let (before, last) = words.rsplit_once(' ').unwrap();
        let slip = format!("{before} {}", &last[..last.len() - 1]);
        if last.len() > 3 {
            let told = parse(&slip).unwrap_err().to_string();
            assert!(told.contains(&format!("'{last}'")), "{slip}: {told}");
        }
    }
}
