//! Work that a connection's input costs, and the budget of its turn.
//!
//! Invariant: a budget decides only where a turn stops, between two frames. A frame that was looked at is handled whole,
//! and input that is not looked at stays in the engine; so the budgets change nothing of what is done, and in which order.

use broker_auth::{JwtError, TokenError, is_sas};
use broker_core::{Work, WorkBudget};

/// A request to `$cbs` or to a management node: taken apart, and answered or refused.
pub(crate) const REQUEST: Work = Work(20);
/// A link or session that begins.
pub(crate) const LINK: Work = Work(20);
/// A log-in: a password is compared by its HMAC with that of a configured secret, and with those of entities.
pub const LOGIN_WORK: Work = Work::HMAC_CHECK.times(3);
/// Bytes of a request that are read by one unit of work.
const REQUEST_BYTES: u64 = 64;

/// Work of reading a request of so many bytes.
pub(crate) const fn of_request(bytes: usize) -> Work {
    Work(REQUEST.0 + bytes as u64 / REQUEST_BYTES)
}

/// Work of the check that a token has gone through. None is made where the token shows that it would be in vain.
pub fn work_of_token(token: &str, refused: Option<&TokenError>) -> Work {
    match refused {
        Some(
            TokenError::TooLong(_)
            | TokenError::AudienceTooLong(_)
            | TokenError::UnknownKind
            | TokenError::Malformed(_)
            | TokenError::UnknownKey
            | TokenError::JwtNotConfigured,
        ) => Work(0),
        Some(TokenError::Jwt(error)) => of_jwt(Some(error)),
        _ if is_sas(token) => Work::HMAC_CHECK,
        _ => Work::SIGNATURE_CHECK,
    }
}

/// The same of a JWT.
pub(crate) const fn of_jwt(refused: Option<&JwtError>) -> Work {
    match refused {
        Some(
            JwtError::Malformed(_)
            | JwtError::Algorithm
            | JwtError::Extension
            | JwtError::UnknownIssuer
            | JwtError::UnknownKey { .. },
        ) => Work(0),
        _ => Work::SIGNATURE_CHECK,
    }
}

/// Links among which one is looked for by one unit of work.
const LINKS_COMPARED: u64 = 16;

/// Work of looking for a link among so many by its name.
pub(crate) const fn of_links(links: usize) -> Work {
    Work(links as u64 / LINKS_COMPARED)
}

/// The work of one connection.
#[derive(Debug)]
pub(crate) struct TurnWork {
    /// Since the connection began.
    done: Work,
    /// Value of `done` at which the budget is spent.
    end: Work,
}

impl TurnWork {
    /// Nothing is done, and no budget was given.
    pub(crate) const fn unbounded() -> Self {
        Self { done: Work(0), end: WorkBudget::UNBOUNDED.left() }
    }

    /// From now on so much may be done.
    pub(crate) fn begin(&mut self, work: WorkBudget) {
        self.end = self.done + work.left();
    }

    /// Something is done.
    #[inline]
    pub(crate) const fn charge(&mut self, work: Work) {
        // No check for an overflow, for this is done for each frame: 2^64 units last for 58,000 years.
        self.done.0 = self.done.0.wrapping_add(work.0);
    }

    /// Whether the budget is spent.
    #[inline]
    pub(crate) const fn is_spent(&self) -> bool {
        self.done.0 >= self.end.0
    }

    /// Everything that was done.
    pub(crate) const fn done(&self) -> Work {
        self.done
    }
}
