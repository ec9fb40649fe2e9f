//! Wait for the key of a token: its provider may have got a new one, and its arrival has requested the provider's keys.
//!
//! Invariant: it ends, with the key or after [`KEYS_PATIENCE`].

use std::time::{Duration, Instant};

/// Longest wait of a token for its provider's new keys.
const KEYS_PATIENCE: Duration = Duration::from_secs(8);
/// Interval of checks meanwhile: a fetch takes about as long.
const KEYS_LOOK: Duration = Duration::from_millis(100);

/// Wait of one token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyWait {
    /// Until when its key may become known.
    until: Instant,
    /// When to look next.
    pub(crate) again: Instant,
}

impl KeyWait {
    /// The token has come.
    pub(crate) fn begun(now: Instant) -> Self {
        Self { until: now + KEYS_PATIENCE, again: now }
    }

    /// The key is not known at `now`. `None`: there is no time left.
    pub(crate) fn go_on(self, now: Instant) -> Option<Self> {
        (now < self.until).then(|| Self { again: now + KEYS_LOOK, ..self })
    }
}
