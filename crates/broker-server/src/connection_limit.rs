//! Connection limit: up to the limit connections are served, and a few over it are refused with an error. The last of those within it
//! are shared by namespaces.
//!
//! The namespace of a connection is known only when its client opens it, so a connection takes its slot before it is known whose it
//! is, and is refused then where its namespace has its share. Until it is known the time-outs of the handshakes bound how long it
//! keeps its slot.
//!
//! Invariant: a connection over the limit takes no slot of those within it, so refused clients that retry cannot starve
//! the next free slot. While few slots are free, no namespace has more connections than its weight times their number.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use amqp_gateway::{Admission, RateLimit};
use tracing::warn;

use crate::{
    clock,
    io_threads::CountGuard,
    namespaces::{ServedNamespace, served::AdmitError},
};

/// Connections beyond the limit that are kept until they were sent the error; HTTP clients, which manage the broker,
/// are answered. Connections beyond these are closed without an error.
const OVER_LIMIT_MAX: usize = 64;
/// Part of the slots that is shared by namespaces: the last tenth.
const SHARED_PART: usize = 10;
/// Refusals for the sake of the shares that are logged in a minute.
const LINES_PER_MINUTE: u32 = 60;

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    limit: usize,
    within: Arc<AtomicUsize>,
    over_limit: Arc<AtomicUsize>,
    refusals: Mutex<RateLimit>,
}

/// A slot of one of the two kinds.
#[derive(Debug)]
pub(crate) enum ConnectionSlot {
    /// It is served.
    Admitted(CountGuard),
    /// It is only told that there are too many.
    OverLimit(CountGuard),
}

impl ConnectionLimit {
    /// For at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        let refusals = Mutex::new(RateLimit::new(LINES_PER_MINUTE));
        Self { limit, within: Arc::default(), over_limit: Arc::default(), refusals }
    }

    /// Largest number of connections that are served at once.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// A slot for one more; `None`: it is closed at once.
    pub(crate) fn take(&self) -> Option<ConnectionSlot> {
        if let Some(guard) = CountGuard::take_below(&self.within, self.limit) {
            return Some(ConnectionSlot::Admitted(guard));
        }
        CountGuard::take_below(&self.over_limit, OVER_LIMIT_MAX).map(ConnectionSlot::OverLimit)
    }

    /// Number of connections, within the limit and over it.
    pub(crate) fn taken(&self) -> usize {
        self.within.load(Ordering::Relaxed) + self.over_limit.load(Ordering::Relaxed)
    }

    /// Connections that a namespace of this weight may have, with one more that has its slot already; `None`: any number, for
    /// enough slots are free.
    ///
    /// The fewer are left, the fewer a namespace may have to get one of them: one that comes last finds a free slot still,
    /// however many the others hold.
    fn share(&self, weight: u16) -> Option<usize> {
        let free = self.limit.saturating_sub(self.within.load(Ordering::Relaxed)).saturating_add(1);
        (free <= self.limit / SHARED_PART).then(|| free.saturating_mul(weight.into()))
    }

    /// A place in a namespace for a connection that has its slot. A namespace that is alone shares with none.
    pub(crate) fn admit(
        &self,
        namespace: &ServedNamespace,
        is_alone: bool,
    ) -> Result<CountGuard, AdmitError> {
        let share = self.share(namespace.definition().settings.weight);
        let admitted = namespace.admit(share.filter(|_| !is_alone));
        if let Err(AdmitError::BeyondShare { connections }) = admitted {
            self.log_refusal(&namespace.name, connections);
        }
        admitted
    }

    fn log_refusal(&self, namespace: &str, connections: usize) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Admission::Logged { others } = refusals.attempt(clock::instant()) {
            let limit = self.limit;
            warn!(
                namespace,
                connections,
                limit,
                others,
                "refused: few connections are left, and the namespace has its share"
            );
        }
    }
}

#[cfg(test)]
mod tests;
