//! The SASL exchange, server side (security 5.3).
//!
//! ```text
//!                 init (offered)              outcome ok
//!   AwaitInit ───────────────────▶ Deciding ─────────────▶ done: the AMQP header is next
//!                                   │     ▲
//!                         challenge │     │ response
//!                                   ▼     │
//!                                AwaitResponse
//! ```
//!
//! Invariant: the layer above is asked once at a time, and nothing but its outcome ends the
//! exchange well.

use amqp_codec::performative::{SaslCode, SaslFrame, SaslMechanisms, SaslOutcome};
use amqp_codec::types::Symbol;

use crate::config::MAX_SASL_CHALLENGES;
use crate::event::Event;

/// State of the exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sasl {
    /// The peer has to choose a mechanism.
    AwaitInit,
    /// The layer above has to answer, after this many challenges.
    Deciding { challenges: u8 },
    /// The peer has to answer a challenge.
    AwaitResponse { challenges: u8 },
}

/// Reaction to a frame of the peer.
#[derive(Debug, PartialEq)]
pub(crate) enum Reaction {
    /// The layer above is asked.
    Ask(Event),
    /// The peer is told that it failed, and dropped.
    Fail,
    Drop,
}

impl Sasl {
    /// Whether the layer above has to speak.
    pub(crate) const fn is_deciding(self) -> bool {
        matches!(self, Self::Deciding { .. })
    }

    /// A frame of the peer.
    pub(crate) fn on_frame(&mut self, offered: &[Symbol], frame: SaslFrame) -> Reaction {
        match (*self, frame) {
            (Self::AwaitInit, SaslFrame::Init(init)) => {
                if !offered.contains(&init.mechanism) {
                    return Reaction::Fail;
                }
                *self = Self::Deciding { challenges: 0 };
                Reaction::Ask(Event::SaslInit {
                    mechanism: init.mechanism,
                    initial_response: init.initial_response,
                    hostname: init.hostname,
                })
            }
            (Self::AwaitResponse { challenges }, SaslFrame::Response(response)) => {
                *self = Self::Deciding { challenges };
                Reaction::Ask(Event::SaslResponse(response.response))
            }
            // A frame that only a server sends, or one out of order: the exchange cannot go on (security 5.3.2).
            _ => Reaction::Drop,
        }
    }

    /// The layer above challenges the peer; false when it did so too often.
    pub(crate) fn challenge(&mut self) -> bool {
        match *self {
            Self::Deciding { challenges } if challenges < MAX_SASL_CHALLENGES => {
                *self = Self::AwaitResponse { challenges: challenges + 1 };
                true
            }
            _ => false,
        }
    }
}

/// The mechanisms we offer.
pub(crate) fn mechanisms(offered: &[Symbol]) -> SaslFrame {
    SaslFrame::Mechanisms(SaslMechanisms { mechanisms: offered.to_vec() })
}

/// Outcome frame of the exchange.
pub(crate) const fn outcome(code: SaslCode) -> SaslFrame {
    SaslFrame::Outcome(SaslOutcome { code, additional_data: None })
}

#[cfg(test)]
mod tests;
