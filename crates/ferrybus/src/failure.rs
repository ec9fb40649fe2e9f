//! How a command ends when it does not succeed: a sentence, a hint, an exit code.
//!
//! Invariant: exit code 0 means done, 1 refused or failed, 2 misuse (arguments or configuration), or that a dry run found
//! differences.

use std::{fmt, process::ExitCode};

/// What is printed and what the process exits with.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
    is_silent: bool,
}

impl Failure {
    /// Something was refused or went wrong; exit code 1.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, code: 1, is_silent: false }
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

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// Whether the broker has said over AMQP that something is not there: its condition or status is part of the text.
    pub(crate) fn is_of_what_is_missing(&self) -> bool {
        ["(amqp:not-found)", "(status 404)"].iter().any(|said| self.message.ends_with(said))
    }

    /// What to do about it.
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
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}
