//! Refusals in the log, each with the tracking id that the client has.
//!
//! Invariant: for the whole process so many lines are written in a minute; how many were left out is said. Whatever is
//! left out is in the log at `debug`.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use tracing::{debug, info, warn};

use crate::rate_limit::{Admission, RateLimit};

/// The weight of a refusal for an operator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Severity {
    /// A client is refused what it asked for.
    Warning,
    /// A part of the usual work of clients: nothing has to be done about it.
    Routine,
}

/// Writes refusals to the log; one for all connections.
#[derive(Debug)]
pub struct RefusalLog {
    per_minute: u32,
    /// One for each severity, so that routine hides no warning.
    limits: Mutex<[RateLimit; 2]>,
}

impl RefusalLog {
    /// So many lines of each severity in a minute.
    pub const fn new(per_minute: u32) -> Self {
        Self { per_minute, limits: Mutex::new([RateLimit::new(per_minute), RateLimit::new(per_minute)]) }
    }

    /// Writes that a client was told `text`, which has its tracking id, under this condition or status. The namespace is
    /// empty while it is not known.
    pub fn write(&self, now: Instant, severity: Severity, namespace: &str, condition: &str, text: &str) {
        match (severity, self.attempt(now, severity)) {
            (Severity::Warning, Admission::Logged { others }) => {
                warn!(namespace, condition, text, others, "refused");
            }
            (Severity::Routine, Admission::Logged { others }) => {
                info!(namespace, condition, text, others, "refused (routine)");
            }
            (_, Admission::LeftOut) => debug!(namespace, condition, text, "refused (left out)"),
            (_, Admission::FirstLeftOut) => {
                let per_minute = self.per_minute;
                warn!(per_minute, "more is refused than is logged; the rest is logged at `debug`");
                debug!(namespace, condition, text, "refused (left out)");
            }
        }
    }

    fn attempt(&self, now: Instant, severity: Severity) -> Admission {
        let [warnings, routine] = &mut *self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        match severity {
            Severity::Warning => warnings.attempt(now),
            Severity::Routine => routine.attempt(now),
        }
    }
}

impl Default for RefusalLog {
    fn default() -> Self {
        Self::new(REFUSALS_PER_MINUTE)
    }
}

/// Lines of each severity in a minute, unless the operator says otherwise.
pub const REFUSALS_PER_MINUTE: u32 = 60;
