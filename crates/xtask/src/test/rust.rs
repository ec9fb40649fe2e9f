//! The workspace's own tests: unit, property and system tests by nextest, documentation tests by `cargo test`.
//!
//! Invariant: a run without a report counts as a failure, and so does a failed run whose report has no failure.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use roxmltree::{Document, Node};

use super::report::{Failure, Row};
use crate::counts::Counts;
use crate::workspace::Workspace;
use crate::{Fallible, process, sim, tools};

const LIMIT: Duration = Duration::from_secs(45 * 60);
/// Report of the profile `ci` of `.config/nextest.toml`, whatever the target directory is.
const REPORT: &str = "target/nextest/ci/junit.xml";

/// Runs the tests of the workspace; they find the optimised binary in `FERRYBUS_BIN`. Those of the simulator are built as the
/// simulator is: in a debug build its seeds take several times as long and find nothing more.
pub(super) fn run(workspace: &Workspace, broker: Option<&Path>) -> Fallible<Vec<Row>> {
    let mut rows = nextest(workspace, broker, &["--workspace", "--exclude", sim::PACKAGE])?;
    if workspace.has(sim::PACKAGE) {
        rows.extend(nextest(
            workspace,
            broker,
            &["--package", sim::PACKAGE, "--cargo-profile", sim::PROFILE],
        )?);
    }
    rows.push(documentation(workspace)?);
    Ok(rows)
}

fn nextest(workspace: &Workspace, broker: Option<&Path>, chosen: &[&str]) -> Fallible<Vec<Row>> {
    let report = workspace.root.join(REPORT);
    if report.is_file() {
        std::fs::remove_file(&report)?;
    }
    let mut command = Command::new(tools::tool(workspace, "cargo-nextest")?);
    command.args(["nextest", "run", "--locked", "--profile", "ci"]).args(chosen).current_dir(&workspace.root);
    if let Some(broker) = broker {
        command.env("FERRYBUS_BIN", broker);
    }
    let ran = process::run(&mut command, &workspace.target.join("test-logs/cargo.log"), LIMIT)?;
    let mut rows = match std::fs::read_to_string(&report) {
        Ok(text) => read(&text)?,
        Err(_) => Vec::new(),
    };
    if rows.is_empty() || !ran.ok && rows.iter().all(|row| row.counts.failed == 0) {
        rows.push(Row::failed("cargo nextest", ran.reason, &ran.text));
    }
    Ok(rows)
}

/// The examples in the documentation count as one test: nextest does not run them.
fn documentation(workspace: &Workspace) -> Fallible<Row> {
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--locked", "--doc", "--no-fail-fast", "--quiet"]);
    let ran = process::run(&mut command, &workspace.target.join("test-logs/doc.log"), LIMIT)?;
    let name = "examples in the documentation";
    Ok(if ran.ok { Row::new(name, Counts::success(), "") } else { Row::failed(name, ran.reason, &ran.text) })
}

/// One row for each test binary of a report in the form of `JUnit`.
fn read(text: &str) -> Fallible<Vec<Row>> {
    let document = Document::parse(text)?;
    let suites = document.descendants().filter(|node| node.has_tag_name("testsuite"));
    Ok(suites.map(|suite| binary(suite)).collect())
}

fn binary(suite: Node<'_, '_>) -> Row {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for case in suite.children().filter(|node| node.has_tag_name("testcase")) {
        let has = |tag: &str| case.children().any(|node| node.has_tag_name(tag));
        if has("failure") || has("error") {
            counts.failed += 1;
            let printed: Vec<&str> = case.descendants().filter_map(|node| node.text()).collect();
            let title = case.attribute("name").unwrap_or_default().to_owned();
            failures.push(Failure { title, detail: printed.join("\n") });
        } else if has("skipped") {
            counts.skipped += 1;
        } else {
            counts.passed += 1;
        }
    }
    let note = failures.iter().map(|failure| failure.title.as_str()).collect::<Vec<_>>().join(", ");
    Row { failures, ..Row::new(suite.attribute("name").unwrap_or_default(), counts, note) }
}

#[cfg(test)]
mod tests;
