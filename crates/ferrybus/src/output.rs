//! Standard output and standard error.
//!
//! Invariant: a reader that goes away (`| head`) ends the command quietly, never with a panic.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use crate::failure::Failure;

/// Prints one line of data.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| lost(&error))
}

/// A failure to write; a reader that went away ends the command quietly.
pub(crate) fn lost(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        // The reader has seen enough. Whoever pipes into `head` wants no complaint.
        std::process::exit(0);
    }
    Failure::new(format_args!("cannot write to standard output: {error}"))
}

/// Says something to the person at the terminal. If nobody can read it, nobody misses it.
pub(crate) fn note(text: impl std::fmt::Display) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Prints why a command ends, in colour where that is wanted.
pub(crate) fn complain(failure: &Failure) {
    if let Some(line) = failure.json() {
        return note(line);
    }
    let text = failure.to_string();
    let coloured = io::stderr().is_terminal() && colours_wanted();
    match text.strip_prefix("error:") {
        Some(rest) if coloured => note(format_args!("\x1b[1;31merror:\x1b[0m{rest}")),
        _ => note(text),
    }
}

/// Escapes what a terminal would act on; line breaks too, so that a text stays in its line.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    out
}

/// Unless `NO_COLOR` is set to something (no-color.org).
pub(crate) fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Tells a person at a terminal how far a long command is. Silent elsewhere.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: Option<u64>,
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Counts `what` up to `total`, if that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + INTERVAL);
        Self { what, total, next, shown: false }
    }

    /// `done` are done now.
    pub(crate) fn at(&mut self, done: u64) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + INTERVAL);
        self.shown = true;
        drop(write!(io::stderr().lock(), "\r{}\x1b[K", self.text(done)));
    }

    /// `removed [#####---------------] 120 of 480`.
    fn text(&self, done: u64) -> String {
        let Some(total) = self.total else { return format!("{} {done}", self.what) };
        let full = usize::try_from(done.min(total).saturating_mul(BAR) / total.max(1)).unwrap_or_default();
        let rest = usize::try_from(BAR).unwrap_or_default().saturating_sub(full);
        format!("{} [{}{}] {done} of {total}", self.what, "#".repeat(full), "-".repeat(rest))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            drop(write!(io::stderr().lock(), "\r\x1b[K"));
        }
    }
}

const INTERVAL: Duration = Duration::from_millis(250);
/// Characters of a progress bar.
const BAR: u64 = 20;

#[cfg(test)]
mod tests;
