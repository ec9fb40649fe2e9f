//! Consequences of a peer's mistake.
//!
//! Invariant: a mistake costs the smallest endpoint that AMQP allows: its link, else its session, else the connection.

use amqp_codec::performative::Error;
use amqp_codec::types::Symbol;

use crate::condition::{self, error};

/// End of a link or of a session.
#[derive(Debug, PartialEq)]
pub(crate) enum Fault {
    /// The link of this handle of ours.
    Link(u32, Box<Error>),
    Session(Box<Error>),
}

impl Fault {
    /// One that costs the link of this handle of ours.
    #[cold]
    pub(crate) fn link(handle: u32, condition: Symbol, description: impl Into<String>) -> Self {
        Self::Link(handle, Box::new(error(condition, description)))
    }

    /// One that costs the session.
    #[cold]
    pub(crate) fn session(condition: Symbol, description: impl Into<String>) -> Self {
        Self::Session(Box::new(error(condition, description)))
    }
}

/// End of a connection.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// The error goes out in a close.
    Close(Box<Error>),
    /// As [`Self::Close`], and no frame boundary is known behind the mistake: the rest of the input is dropped.
    Framing(Box<Error>),
    /// Nothing goes out beyond the queued bytes: before the AMQP header no frame could carry an error.
    Drop,
}

impl Failure {
    #[cold]
    pub(crate) fn close(condition: Symbol, description: impl Into<String>) -> Self {
        Self::Close(Box::new(error(condition, description)))
    }

    #[cold]
    pub(crate) fn framing(description: impl Into<String>) -> Self {
        Self::Framing(Box::new(error(condition::FRAMING_ERROR, description)))
    }
}
