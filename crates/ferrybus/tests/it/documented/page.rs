//! Console blocks as the pages have them, and how what they show is compared.

use std::{fs, path::Path};

/// A block: commands with what the page shows of their output.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) commands: Vec<Typed>,
}

/// One command of a block.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) line: String,
    pub(super) shown: Vec<String>,
}

impl Typed {
    /// Whether the page lets expect this exit code: a shown error is one, a plan with differences has 2.
    pub(super) fn exits_with(&self, code: i32) -> bool {
        let error = self.shown.iter().any(|line| line.starts_with("error:"));
        let plan = self.line.contains("--dry-run");
        if error { code != 0 } else { code == if plan { 2 } else { 0 } }
    }
}

/// Every block of the README and of the pages, by page and number: `features/tls.md 2`.
pub(super) fn blocks(root: &Path) -> Vec<(String, Block)> {
    let mut pages = vec![("README.md".to_owned(), root.join("README.md"))];
    for (prefix, folder) in [("", "docs"), ("features/", "docs/features")] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push((format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap()), path));
            }
        }
    }
    let mut found = Vec::new();
    for (name, path) in pages {
        let text = fs::read_to_string(path).unwrap();
        let parts = text.split("```console\n").skip(1).zip(1..);
        found.extend(parts.map(|(part, number)| (format!("{name} {number}"), block(part))));
    }
    found
}

/// The block that `part` begins with.
fn block(part: &str) -> Block {
    let mut commands: Vec<Typed> = Vec::new();
    for line in part.lines().take_while(|line| *line != "```") {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(Typed { line: line.trim().to_owned(), shown: Vec::new() }),
            (None, Some(command)) => command.shown.push(line.to_owned()),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    Block { commands }
}

/// Parts of an output that may differ between a page and a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Figures {
    /// Times, ids, addresses and the width of columns.
    AsShown,
    /// All numbers too: they come from the machine or from what was there before.
    OfTheDay,
}

/// Whether a run printed what the page shows. Nothing shown: nothing said about it. A line of `…` stands for any
/// number of lines, and one inside a line for any text.
pub(super) fn told_alike(shown: &[String], came: &[String], figures: Figures) -> bool {
    let plain = |lines: &[String]| lines.iter().map(|line| plain(line, figures)).collect::<Vec<_>>();
    shown.is_empty() || lines_alike(&plain(shown), &plain(came))
}

fn lines_alike(shown: &[String], came: &[String]) -> bool {
    match (shown.split_first(), came.split_first()) {
        (None, None) => true,
        (Some((gap, rest)), _) if gap == "…" => {
            (0..=came.len()).any(|from| lines_alike(rest, &came[from..]))
        }
        (Some((shown, rest)), Some((line, others))) => line_alike(shown, line) && lines_alike(rest, others),
        _ => false,
    }
}

fn line_alike(shown: &str, came: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = came.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut whole = true;
    for part in parts {
        whole = part.is_empty();
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = if whole { "" } else { after };
    }
    rest.is_empty() || (whole && shown.ends_with('…'))
}

/// The line without what differs from run to run.
fn plain(line: &str, figures: Figures) -> String {
    let words = line.split_whitespace().map(|word| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if digits >= 8 && word.contains('T') && word.ends_with('Z') {
            "<time>".to_owned()
        } else if word.len() >= 32 && hexadecimal {
            "<id>".to_owned()
        } else if figures == Figures::OfTheDay {
            without_figures(word)
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// `#` for each number.
fn without_figures(word: &str) -> String {
    let mut text = String::new();
    for character in word.chars() {
        match character {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

#[test]
fn allowed_differences_are_told_from_others() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let id = "6f6d0f5f3bb24c6f9f9a1f0d4c3b2a19";
    let shown = format!("  1  tea\n  at 2026-11-21T14:10:07.512Z · id {id}");
    for (shown, came, figures, expected) in [
        (shown.as_str(), shown.as_str(), Figures::AsShown, true),
        (
            &shown,
            " 1 tea\n at 2027-01-01T00:00:00.000Z · id 00000000000000000000000000000000",
            Figures::AsShown,
            true,
        ),
        (&shown, "1 tea", Figures::AsShown, false),
        ("removed 3 messages", "removed 2 messages", Figures::AsShown, false),
        ("removed 3 messages", "removed 12 messages", Figures::OfTheDay, true),
        ("removed 3 messages", "removed 3 letters", Figures::OfTheDay, false),
        ("a\n…\nd", "a\nb\nc\nd", Figures::AsShown, true),
        ("a\n…\nd", "a\nb\nc", Figures::AsShown, false),
        ("…\napplied 5", "plan\napplied 5", Figures::AsShown, true),
        ("a … d", "a b c d", Figures::AsShown, true),
        ("a … d", "a b c", Figures::AsShown, false),
        ("a …", "a b c", Figures::AsShown, true),
        ("a", "a b", Figures::AsShown, false),
        ("", "anything", Figures::AsShown, true),
    ] {
        assert_eq!(told_alike(&lines(shown), &lines(came), figures), expected, "{shown:?}, {came:?}");
    }
}
