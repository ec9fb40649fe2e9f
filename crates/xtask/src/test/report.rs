//! Closing report of a run: the table, every failure once more, and the count.
//!
//! Invariant: the last line is `N passed, M failed`, and what is above it is bounded whatever a test printed.

use std::fmt::Write as _;
use std::time::Duration;

use crate::counts::Counts;
use crate::table;

/// One line of the table.
pub(super) struct Row {
    pub(super) suite: String,
    pub(super) counts: Counts,
    /// Notes: runs, reasons, packages that could not be installed.
    pub(super) note: String,
    pub(super) failures: Vec<Failure>,
}

/// One thing that went wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Failure {
    /// Name of the failed test, in one line.
    pub(super) title: String,
    /// Output: an assertion, a traceback, the end of a log. May be empty and may be long.
    pub(super) detail: String,
}

impl Row {
    pub(super) fn new(suite: impl Into<String>, counts: Counts, note: impl Into<String>) -> Self {
        Self { suite: suite.into(), counts, note: note.into(), failures: Vec::new() }
    }

    /// A suite that counts as one failure, with what it printed.
    pub(super) fn failed(suite: impl Into<String>, note: impl Into<String>, printed: &str) -> Self {
        let note = note.into();
        let failure = Failure { title: note.clone(), detail: printed.to_owned() };
        Self { failures: vec![failure], ..Self::new(suite, Counts::failure(), note) }
    }
}

/// Characters of a note in the table.
const NOTE_CHARS_MAX: usize = 160;
/// Failures that are told in full; those after them by their titles.
const FULL_FAILURES_MAX: usize = 40;
/// Lines shown of one failure.
const FAILURE_LINES_MAX: usize = 30;
const FAILURE_CHARS_MAX: usize = 3_000;
const LINE_CHARS_MAX: usize = 400;

/// All that is printed when the suites are done.
pub(super) fn text(rows: &[Row], took: Duration) -> String {
    let total = total(rows);
    format!(
        "\n{}\n{}{} s\n{} passed, {} failed\n",
        summary(rows),
        failures(rows),
        took.as_secs(),
        total.passed,
        total.failed
    )
}

/// The counts of all suites.
pub(super) fn total(rows: &[Row]) -> Counts {
    let mut total = Counts::default();
    for row in rows {
        total += row.counts;
    }
    total
}

fn summary(rows: &[Row]) -> String {
    // Most crates have no doc tests and some binaries no unit tests: empty rows say nothing.
    let lines: Vec<Vec<String>> = rows
        .iter()
        .filter(|row| row.counts != Counts::default())
        .map(|row| {
            let Counts { passed, failed, skipped } = row.counts;
            let counts = [passed, failed, skipped].map(|count| count.to_string());
            let note = brief(&row.note, NOTE_CHARS_MAX);
            [row.suite.clone()].into_iter().chain(counts).chain([note]).collect()
        })
        .collect();
    table::markdown(&["suite", "passed", "failed", "skipped", "note"], &lines)
}

fn failures(rows: &[Row]) -> String {
    let all = rows.iter().flat_map(|row| row.failures.iter().map(move |failure| (&row.suite, failure)));
    let mut text = String::new();
    for (index, (suite, failure)) in all.enumerate() {
        let title = brief(&failure.title, LINE_CHARS_MAX);
        let told = writeln!(text, "-- {suite}: {title}");
        told.expect("writing to a string cannot fail");
        if index < FULL_FAILURES_MAX {
            text.push_str(&excerpt(&failure.detail));
            text.push('\n');
        }
    }
    text
}

/// One line of at most `chars_max` characters.
pub(super) fn brief(text: &str, chars_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&line, chars_max)
}

fn shortened(line: &str, chars_max: usize) -> String {
    if line.chars().count() <= chars_max {
        return line.to_owned();
    }
    line.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// The first and the last lines of a long text: a panic begins with its reason, a traceback ends with it.
fn excerpt(detail: &str) -> String {
    let lines: Vec<String> =
        detail.trim().lines().map(|line| shortened(line.trim_end(), LINE_CHARS_MAX)).collect();
    let (head, tail) = kept(&lines);
    let (first, rest) = lines.split_at(head);
    let (left_out, last) = rest.split_at(rest.len() - tail);
    let mark = match left_out.len() {
        0 => Vec::new(),
        count => vec![format!("… {count} lines left out …")],
    };
    let shown = first.iter().chain(&mark).chain(last);
    shown.fold(String::new(), |text, line| text + "   " + line + "\n")
}

/// Numbers of lines from the beginning and from the end that fit.
fn kept(lines: &[String]) -> (usize, usize) {
    let (mut head, mut tail, mut chars) = (0, 0, 0);
    while head + tail < lines.len().min(FAILURE_LINES_MAX) {
        let from_head = head <= tail;
        let next = if from_head { lines.get(head) } else { lines.iter().rev().nth(tail) };
        chars += next.map_or(0, |line| line.chars().count() + 1);
        if chars > FAILURE_CHARS_MAX {
            break;
        }
        *(if from_head { &mut head } else { &mut tail }) += 1;
    }
    (head, tail)
}

#[cfg(test)]
mod tests;
