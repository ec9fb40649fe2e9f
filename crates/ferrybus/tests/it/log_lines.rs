//! The list of log lines in `docs/operations.md`, compared with the places that write them.
//!
//! Invariant: each `error!`, `warn!` and `info!` of the broker has its text as a literal, and the page has one row for it;
//! the page has no other rows.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Crates that are no part of the broker's process.
const TOOLS: [&str; 3] = ["sim", "testkit", "xtask"];
/// The macros, with the levels that the page shows.
const LEVELS: [&str; 3] = ["error", "warn", "info"];

/// A line: its level and its text.
type Line = (String, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The production files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The arguments of a call, from behind its parenthesis to the one that closes it.
fn arguments(text: &str) -> Vec<String> {
    let (mut all, mut argument, mut depth) = (Vec::new(), String::new(), 0_u32);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                argument.push('"');
                while let Some(inner) = letters.next() {
                    argument.push(inner);
                    match inner {
                        '\\' => argument.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' => break,
            ',' if depth == 0 => {
                all.push(std::mem::take(&mut argument));
                continue;
            }
            _ => {}
        }
        argument.push(letter);
    }
    all.push(argument);
    all.iter().map(|argument| argument.trim().to_owned()).collect()
}

/// A string literal as it is written, for the page: lines that go on are joined.
fn literal(argument: &str) -> Option<String> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?;
    let mut parts = inner.split("\\\n");
    let first = parts.next()?.to_owned();
    Some(parts.fold(first, |text, part| text + part.trim_start()).replace("\\\"", "\""))
}

/// The lines that a file writes; without a text for a call that has none.
fn written(source: &str) -> Vec<Line> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .fold(String::new(), |code, line| code + line + "\n");
    let mut lines = Vec::new();
    for level in LEVELS {
        let call = format!("{level}!(");
        for (at, _) in code.match_indices(&call) {
            if code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
                continue;
            }
            let text =
                arguments(&code[at + call.len()..]).iter().rev().find_map(|argument| literal(argument));
            lines.push((level.to_owned(), text.unwrap_or_default()));
        }
    }
    lines
}

/// The rows of the page: level, text, meaning and action.
fn rows() -> Vec<[String; 4]> {
    let page = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let (_, rest) = page.split_once("### Each line of the log\n").expect("the page has the list");
    let table =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    table
        .skip(2)
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [level, text, meaning, action] = cells[..] else { panic!("not four cells: {row}") };
            [level.trim_matches('`'), text, meaning, action].map(str::to_owned)
        })
        .collect()
}

#[test]
fn operations_lists_each_line_of_the_log() {
    let mut sources = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        if !TOOLS.contains(&path.file_name().unwrap().to_str().unwrap()) && path.join("src").is_dir() {
            files(&path.join("src"), &mut sources);
        }
    }
    let mut lines = BTreeSet::new();
    for source in &sources {
        let text = fs::read_to_string(source).unwrap();
        for (level, text) in written(&text) {
            assert!(!text.is_empty(), "{}: `{level}!` needs its text as a literal", source.display());
            lines.insert((level, text));
        }
    }
    assert!(lines.len() > 30, "the lines are found: {lines:#?}");
    let rows = rows();
    let listed: BTreeSet<Line> = rows.iter().map(|[level, text, ..]| (level.clone(), text.clone())).collect();
    assert_eq!(listed.len(), rows.len(), "a line is listed twice");
    let missing: Vec<&Line> = lines.difference(&listed).collect();
    let stale: Vec<&Line> = listed.difference(&lines).collect();
    assert!(
        missing.is_empty(),
        "without a row under \"Each line of the log\" in docs/operations.md: {missing:#?}"
    );
    assert!(stale.is_empty(), "listed there and written by nothing: {stale:#?}");
    for row in &rows {
        assert!(row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

#[test]
fn texts_are_found_in_all_forms_of_a_call() {
    let source = "fn f() {\n    warn!(%error, \"plain, with a comma\");\n    tracing::info!(target: \"t\", a = g(1, \"x\"), \"last\");\n\
                  error!(\n        path = %p,\n        \"over \\\n         lines\"\n    );\n    // warn!(\"commented\")\n    debug!(\"no\");\n    info!(x);\n}";
    let mut found = written(source);
    found.sort();
    let line = |level: &str, text: &str| (level.to_owned(), text.to_owned());
    let expected = [
        line("error", "over lines"),
        line("info", ""),
        line("info", "last"),
        line("warn", "plain, with a comma"),
    ];
    assert_eq!(found, expected);
}
