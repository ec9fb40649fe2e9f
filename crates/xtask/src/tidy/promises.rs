//! Promises about the clients of others: each names a run of that client with its version, or says that the client was
//! `replayed` from a recording or `scripted`.
//!
//! Invariant: a test that is named after a client says in its name what it is, since none of the tests in Rust is a run of a
//! foreign client; those are the suites of `interop/`, and `docs/features/interop.md` has a row of its versions for each.

use std::path::{Path, PathBuf};

use super::findings::Findings;
use super::requirements;
use crate::Fallible;
use crate::workspace::Workspace;

const PAGE: &str = "docs/features/interop.md";
const REQUIREMENTS: &str = "docs/requirements.md";

/// First words of tests that are named after a client.
const IMITATED: [&str; 16] = [
    "amqpnetlite",
    "dotnet",
    "go",
    "java",
    "javascript",
    "jms",
    "lite",
    "masstransit",
    "nservicebus",
    "proton",
    "protonj2",
    "python",
    "qpid",
    "rebus",
    "rhea",
    "spring",
];

/// Names of clients in statements and tables, as whole words.
const CLIENTS: [&str; 19] = [
    "SDK",
    "SDKs",
    ".NET",
    "Qpid",
    "JMS",
    "Proton",
    "ProtonJ2",
    "rhea",
    "go-amqp",
    "AMQP.NET Lite",
    "MassTransit",
    "NServiceBus",
    "Rebus",
    "Spring",
    "Camel",
    "Dapr",
    "KEDA",
    "Vert.x",
    "gocloud.dev",
];

/// Words which say that the client itself did not run.
const NOT_RUN: [&str; 2] = ["replayed", "scripted"];

/// Files of a suite that pin versions.
const PINS: [&str; 9] = [
    "requirements.txt",
    "package.json",
    "pom.xml",
    "go.mod",
    "src/go.mod",
    "Cargo.toml",
    "fetch.sh",
    "suite.toml",
    "suite.py",
];

pub(super) fn check(workspace: &Workspace, files: &[PathBuf], findings: &mut Findings) -> Fallible<()> {
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "rs")) {
        let text = workspace.read(file)?;
        let names = requirements::tests_in(&text).filter(|name| is_named_after_a_client(name));
        findings.broken.extend(names.map(|name| {
            format!("{}: `{name}` is named after a client: put `scripted_` in front", file.display())
        }));
    }
    let page = workspace.read(PAGE)?;
    let runs = runs(&page);
    for run in &runs {
        findings.broken.extend(pinned(workspace, files, run)?);
    }
    findings.broken.extend(statements(&workspace.read(REQUIREMENTS)?, &page, &runs));
    let pages = files.iter().filter(|file| is_page(file));
    for file in pages {
        let broken = marks(&workspace.read(file)?, &runs);
        findings.broken.extend(broken.into_iter().map(|broken| format!("{}: {broken}", file.display())));
    }
    Ok(())
}

/// A client that a suite runs.
#[derive(Debug, Eq, PartialEq)]
struct Run<'a> {
    /// The heading of its column.
    client: &'a str,
    version: &'a str,
    /// Folder in `interop/`.
    suite: &'a str,
}

fn is_page(file: &Path) -> bool {
    let is_markdown = file.extension().is_some_and(|ending| ending == "md");
    let is_promise =
        file.starts_with("docs") && !file.starts_with("docs/decisions") || file == Path::new("README.md");
    is_markdown && is_promise && !file.starts_with("docs/internal")
}

fn is_named_after_a_client(test: &str) -> bool {
    let test = test.strip_prefix("a_").unwrap_or(test);
    test.split_once('_').is_some_and(|(first, _)| IMITATED.contains(&first))
}

/// The rows of the table whose headings are `client`, `version` and `suite`.
fn runs(page: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    for table in tables(page) {
        let Some((["client", "version", "suite", ..], rows)) =
            table.split_first().map(|(headings, rows)| (headings.as_slice(), rows))
        else {
            continue;
        };
        for row in rows {
            if let [client, version, suite, ..] = row.as_slice() {
                runs.push(Run { client, version, suite: suite.trim_matches('`') });
            }
        }
    }
    runs
}

/// A fault of a row of versions: no suite has this name, or none of its files pins this version.
fn pinned(workspace: &Workspace, files: &[PathBuf], run: &Run<'_>) -> Fallible<Option<String>> {
    let folder = Path::new("interop").join(run.suite);
    let Some(version) = version_in(run.version) else {
        return Ok(Some(format!("{PAGE}: {} has no version", run.client)));
    };
    for pin in PINS.iter().map(|pin| folder.join(pin)).filter(|pin| files.contains(pin)) {
        if workspace.read(&pin)?.contains(version) {
            return Ok(None);
        }
    }
    Ok(Some(format!("{PAGE}: {} {version} is pinned by no file of {}", run.client, folder.display())))
}

/// The first word with a digit and a point.
fn version_in(text: &str) -> Option<&str> {
    let is_version =
        |word: &&str| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
    text.split(|c: char| c.is_whitespace() || c == ',').find(is_version)
}

/// Statements that promise something to a client and name neither a run of that client nor a test that says what it is.
fn statements(text: &str, page: &str, runs: &[Run<'_>]) -> Vec<String> {
    let mut broken = Vec::new();
    for table in tables(text) {
        for row in table.iter().skip(1) {
            let [id, statement, .., proofs] = row.as_slice() else { continue };
            if proofs.starts_with("open:") {
                continue;
            }
            let named = || proofs.split('`').skip(1).step_by(2);
            if named().any(|name| NOT_RUN.iter().any(|word| name.starts_with(word))) {
                continue;
            }
            let cases: Vec<&str> = named().filter_map(|name| name.strip_prefix("interop: ")).collect();
            let unproved = clients_in(statement)
                .filter(|client| !cases.iter().any(|case| is_played(page, case, client, runs)));
            broken.extend(unproved.map(|client| {
                format!(
                    "{REQUIREMENTS}: {id} promises something to {client}: name a case that this client plays in a version, \
                     or a `replayed_…` or `scripted_…` test"
                )
            }));
        }
    }
    broken
}

/// Whether the table of cases has a mark for this one in the column of a client of that name with a version.
fn is_played(page: &str, case: &str, client: &str, runs: &[Run<'_>]) -> bool {
    tables(page).iter().any(|table| {
        let Some((headings, rows)) = table.split_first() else { return false };
        rows.iter().filter(|row| row.first().is_some_and(|first| first.contains(&format!("`{case}`")))).any(
            |row| {
                let marked = headings.iter().zip(row).filter(|(_, cell)| cell.starts_with('✓'));
                marked.into_iter().any(|(heading, _)| {
                    is_of(heading, client) && runs.iter().any(|run| run.client == *heading)
                })
            },
        )
    })
}

/// Whether the column of `heading` is one of `client`: its name is a word of the heading, or it is any SDK.
fn is_of(heading: &str, client: &str) -> bool {
    contains_word(heading, client) || client == "SDKs" && contains_word(heading, "SDK")
}

/// Marks in tables for clients that have no version and of which the table does not say what stood in for them.
fn marks(text: &str, runs: &[Run<'_>]) -> Vec<String> {
    let honest = |text: &str| NOT_RUN.iter().any(|word| text.contains(word)) || version_in(text).is_some();
    let mut broken = Vec::new();
    for table in tables(text) {
        let Some((headings, rows)) = table.split_first() else { continue };
        let known = |client: &str| runs.iter().any(|run| run.client == client) || honest(client);
        for (column, heading) in headings.iter().enumerate() {
            let promises = rows.iter().filter_map(|row| row.get(column)).any(|cell| cell.contains('✓'));
            if promises && names_a_client(heading) && !known(heading) {
                broken
                    .push(format!("the column `{heading}` has no row with a version in {PAGE} and says neither replayed nor scripted"));
            }
        }
        // A table of clients: each of its rows is a promise.
        let of_clients = matches!(headings.first(), Some(&"client" | &"framework" | &"SDK"));
        for row in rows {
            let Some(client) = row.first() else { continue };
            let promises = of_clients || row.iter().any(|cell| cell.starts_with('✓'));
            if promises && names_a_client(client) && !known(client) && !row.iter().any(|cell| honest(cell)) {
                broken.push(format!(
                    "the row `{client}` has no version and says neither replayed nor scripted"
                ));
            }
        }
    }
    broken
}

fn names_a_client(text: &str) -> bool {
    clients_in(text).next().is_some()
}

/// The clients that a text names.
fn clients_in(text: &str) -> impl Iterator<Item = &'static str> {
    CLIENTS.into_iter().filter(move |client| contains_word(text, client))
}

fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + word.len()..));
        !before.unwrap_or_default().ends_with(is_part) && !after.unwrap_or_default().starts_with(is_part)
    })
}

/// The tables of a page, each as rows of cells, the headings first.
fn tables(text: &str) -> Vec<Vec<Vec<&str>>> {
    let mut tables: Vec<Vec<Vec<&str>>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let cells = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = cells else {
            inside = false;
            continue;
        };
        if cells.starts_with("---") {
            continue;
        }
        let row: Vec<&str> = cells.split('|').map(str::trim).collect();
        match tables.last_mut().filter(|_| inside) {
            Some(table) => table.push(row),
            None => tables.push(vec![row]),
        }
        inside = true;
    }
    tables
}

#[cfg(test)]
mod tests;
