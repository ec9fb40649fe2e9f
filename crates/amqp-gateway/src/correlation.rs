//! Correlation of an answer of the core with its request, packed into the ticket itself.
//!
//! A ticket for a delivery carries its session, its delivery-id and, for settlements, the outcome to answer
//! with. So the hot path keeps no table of requests in flight, and a range of tickets that the core merged is
//! a range of delivery-ids in one session with one outcome.
//!
//! ```text
//!  63    60 59     56 55              33  32  31              0
//! ┌────────┬─────────┬──────────────────┬───┬─────────────────┐
//! │ kind 4 │ flags 4 │   session 23     │ 0 │ delivery-id 32  │   Received, Sent
//! │ kind 4 │             number 60                            │   Request
//! └────────┴─────────┴──────────────────┴───┴─────────────────┘
//! ```
//! Bit 32 stays 0, so that a delivery-id that wraps never makes two sessions' tickets neighbours.
//!
//! Invariant: unpacking gives what was packed, and two tickets are neighbours only if they differ in nothing
//! but neighbouring delivery-ids or request numbers.

use broker_core::Ticket;

use crate::disposition::rules::WireOutcome;

/// The gateway's own number of a session, at most [`SessionNumber::MAX`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct SessionNumber(pub(crate) u32);

impl SessionNumber {
    /// Largest number that fits a ticket.
    pub(crate) const MAX: u32 = (1 << SESSION_BITS) - 1;
}

/// Request behind a ticket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Correlation {
    /// A delivery that the peer sent and waits to have settled.
    Received(SessionNumber, u32),
    /// A delivery that the broker sent, and the outcome to answer with.
    Sent(SessionNumber, u32, WireOutcome),
    /// A number in a table.
    Request(u64),
}

const SESSION_BITS: u32 = 23;
const SESSION_SHIFT: u32 = 33;
const FLAGS_SHIFT: u32 = 56;
const KIND_SHIFT: u32 = 60;

const RECEIVED: u64 = 1;
const REQUEST: u64 = 2;
const ACCEPTED: u64 = 3;
const REJECTED: u64 = 4;
const RELEASED: u64 = 5;
const MODIFIED: u64 = 6;

impl Correlation {
    /// The ticket that stands for this.
    pub(crate) fn pack(self) -> Ticket {
        let at = |session: SessionNumber, id: u32| {
            debug_assert!(session.0 <= SessionNumber::MAX);
            u64::from(session.0) << SESSION_SHIFT | u64::from(id)
        };
        Ticket(match self {
            Self::Received(session, id) => RECEIVED << KIND_SHIFT | at(session, id),
            Self::Request(number) => REQUEST << KIND_SHIFT | number,
            Self::Sent(session, id, outcome) => {
                outcome.kind() << KIND_SHIFT | outcome.flags() << FLAGS_SHIFT | at(session, id)
            }
        })
    }

    /// Request behind a ticket; `None` for a ticket that no gateway made.
    pub(crate) fn unpack(ticket: Ticket) -> Option<Self> {
        let bits = ticket.0;
        let kind = bits >> KIND_SHIFT;
        if kind == REQUEST {
            return Some(Self::Request(bits & ((1 << KIND_SHIFT) - 1)));
        }
        let session = u32::try_from(bits >> SESSION_SHIFT & u64::from(SessionNumber::MAX)).ok()?;
        let id = u32::try_from(bits & u64::from(u32::MAX)).ok()?;
        let session = SessionNumber(session);
        if kind == RECEIVED {
            return Some(Self::Received(session, id));
        }
        Some(Self::Sent(session, id, WireOutcome::from_bits(kind, bits >> FLAGS_SHIFT & 0xf)?))
    }
}

impl WireOutcome {
    const fn kind(self) -> u64 {
        match self {
            Self::Accepted => ACCEPTED,
            Self::Rejected => REJECTED,
            Self::Released => RELEASED,
            Self::Modified { .. } => MODIFIED,
        }
    }

    const fn flags(self) -> u64 {
        match self {
            Self::Modified { delivery_failed, undeliverable_here } => {
                flag(delivery_failed) | flag(undeliverable_here) << 2
            }
            _ => 0,
        }
    }

    fn from_bits(kind: u64, flags: u64) -> Option<Self> {
        Some(match kind {
            ACCEPTED => Self::Accepted,
            REJECTED => Self::Rejected,
            RELEASED => Self::Released,
            MODIFIED => {
                Self::Modified { delivery_failed: unflag(flags), undeliverable_here: unflag(flags >> 2) }
            }
            _ => return None,
        })
    }
}

/// Two bits for an optional boolean.
const fn flag(value: Option<bool>) -> u64 {
    match value {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

const fn unflag(bits: u64) -> Option<bool> {
    match bits & 3 {
        1 => Some(false),
        2 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
