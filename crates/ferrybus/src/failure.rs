//! Failure of a command: a sentence, a hint, an exit code.
//!
//! Invariant: exit code 0 means done, 1 refused or failed, 2 misuse (arguments or configuration), or that a dry run found
//! differences. The sentence goes down to the first cause and says nothing twice.

use std::{fmt, io, path::Path, process::ExitCode};

use anyhow::Error;

use crate::{log_settings::LogFormat, logging};

/// Message and exit code of a failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    why: Error,
    hint: Option<String>,
    code: u8,
    is_silent: bool,
    format: LogFormat,
}

impl Failure {
    /// Something was refused or went wrong; exit code 1.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::of(Error::msg(message.to_string()))
    }

    /// The same with the causes that an error knows.
    pub(crate) fn of(why: impl Into<Error>) -> Self {
        Self { why: why.into(), hint: None, code: 1, is_silent: false, format: LogFormat::Text }
    }

    /// The arguments or the configuration cannot be used; exit code 2.
    pub(crate) fn misuse(message: impl fmt::Display) -> Self {
        Self { code: 2, ..Self::new(message) }
    }

    /// A dry run has found differences, and has shown them; exit code 2, and nothing more to say.
    pub(crate) fn differences() -> Self {
        Self { code: 2, is_silent: true, ..Self::new("there are differences") }
    }

    /// The same with exit code 1, where 2 means something else.
    #[must_use]
    pub(crate) fn into_refusal(self) -> Self {
        Self { code: 1, ..self }
    }

    /// Everything was said already.
    pub(crate) const fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Says it as the log is written.
    #[must_use]
    pub(crate) fn said_in(self, format: LogFormat) -> Self {
        Self { format, ..self }
    }

    /// The line for a log for machines, where that is what is wanted.
    pub(crate) fn json(&self) -> Option<String> {
        let hint = self.hint.as_deref().map(|hint| ("hint", hint.into()));
        let fields: Vec<_> = hint.into_iter().collect();
        (self.format == LogFormat::Json).then(|| logging::json_line("ERROR", &self.sentence(), &fields))
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Whether the broker has said over AMQP that something is not there: its condition or status is part of the text.
    pub(crate) fn is_not_found(&self) -> bool {
        let sentence = self.sentence();
        ["(amqp:not-found)", "(status 404)"].iter().any(|said| sentence.ends_with(said))
    }

    /// Description down to the first cause. Some errors repeat their cause's text, and some leave it to the cause.
    fn sentence(&self) -> String {
        let mut sentence = String::new();
        for cause in self.why.chain().map(ToString::to_string) {
            if sentence.contains(&cause) {
                continue;
            }
            if !sentence.is_empty() {
                sentence.push_str(": ");
            }
            sentence.push_str(&cause);
        }
        sentence
    }

    /// Hint for the user.
    pub(crate) fn into_hint(self) -> Option<String> {
        self.hint
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.sentence())?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A file that cannot be read.
pub(crate) fn unreadable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::misuse(format_args!("cannot read {what} `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests;
