//! How a command ends when it does not succeed: a sentence, a hint, an exit code.
//!
//! Invariant: exit code 0 means done, 1 refused or failed, 2 misuse (arguments or configuration).

use std::{fmt, process::ExitCode};

/// What is printed and what the process exits with.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    misuse: bool,
}

impl Failure {
    /// Something was refused or went wrong; exit code 1.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), hint: None, misuse: false }
    }

    /// The arguments or the configuration cannot be used; exit code 2.
    pub(crate) fn misuse(message: impl fmt::Display) -> Self {
        Self { misuse: true, ..Self::new(message) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(if self.misuse { 2 } else { 1 })
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
