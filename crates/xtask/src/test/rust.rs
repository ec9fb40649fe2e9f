//! The workspace's own tests: unit, property, documentation and the system tests' `it`.
//!
//! Invariant: a test binary that died without a report counts as a failure.

use std::path::Path;
use std::time::Duration;

use super::report::{Failure, Row};
use crate::counts::{self, Binary};
use crate::workspace::Workspace;
use crate::{Fallible, process};

const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Runs `cargo test` over the workspace; tests find the optimised binary in `FERRYBUS_BIN`.
pub(super) fn run(workspace: &Workspace, broker: Option<&Path>) -> Fallible<Vec<Row>> {
    let mut command = workspace.cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]);
    if let Some(broker) = broker {
        command.env("FERRYBUS_BIN", broker);
    }
    let ran = process::run(&mut command, &workspace.target.join("test-logs/cargo.log"), LIMIT)?;
    let mut rows: Vec<Row> = counts::cargo_test(&ran.text).into_iter().map(row).collect();
    if !ran.ok && rows.iter().all(|row| row.counts.failed == 0) {
        rows.push(Row::failed("cargo test", ran.reason, &ran.text));
    }
    Ok(rows)
}

fn row(binary: Binary) -> Row {
    let failures: Vec<Failure> =
        binary.failures.into_iter().map(|(title, detail)| Failure { title, detail }).collect();
    let note = failures.iter().map(|failure| failure.title.as_str()).collect::<Vec<_>>().join(", ");
    Row { failures, ..Row::new(binary.name, binary.counts, note) }
}
