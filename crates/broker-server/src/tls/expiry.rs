//! The times at which the log says that a certificate is about to expire.
//!
//! Invariant: from [`NOTICE`] before the end on it is said once in each [`PAUSE`], and at once for a certificate that was just
//! taken in.

use std::time::Duration;

use broker_core::Timestamp;

/// Time before the end from which on it is said.
const NOTICE: Duration = Duration::from_secs(14 * 86_400);
/// Time between two times that it is said.
const PAUSE: Duration = Duration::from_secs(86_400);

/// Watches the end of one certificate.
#[derive(Debug, Default)]
pub(super) struct ExpiryNotice {
    said_at: Option<Timestamp>,
}

/// The remaining time of a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Remaining {
    /// Days that are left, rounded down.
    Days(u64),
    /// It has expired.
    None,
}

impl ExpiryNotice {
    /// The remaining time if it is to be logged at `now`, for a certificate that ends at `expires_at`, in seconds since 1970.
    pub(super) fn due(&mut self, now: Timestamp, expires_at: u64) -> Option<Remaining> {
        let now_seconds = now.as_millis() / 1000;
        let left = expires_at.saturating_sub(now_seconds);
        let said_lately = self.said_at.is_some_and(|said_at| now < said_at.after(PAUSE));
        if left > NOTICE.as_secs() || said_lately {
            return None;
        }
        self.said_at = Some(now);
        Some(if left == 0 { Remaining::None } else { Remaining::Days(left / PAUSE.as_secs()) })
    }
}

#[cfg(test)]
mod tests;
