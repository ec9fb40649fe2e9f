//! Results of health probes: whether the broker can be used, else the reason.
//!
//! Invariant: a result is shared by all probes of a short time, whatever their path.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::shutdown::Shutdown;

/// Time within which the node has to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// Reason why the broker cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum HealthProblem {
    /// It is ending.
    #[error("the broker is stopping")]
    Stopping,
    /// The node has ended: the journal failed.
    #[error("the journal failed, nothing is accepted until a restart")]
    Ended,
    /// A shard has panicked and recovers from its journal.
    #[error("a shard recovers from a failure, its clients connect again")]
    Recovering {
        /// Other shards work meanwhile.
        others: bool,
    },
    /// The node does not answer in time.
    #[error("the broker did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// Sends are refused.
    #[error("the disk is full, sends are refused")]
    DiskFull,
    /// Sends and new entities are refused.
    #[error("the memory is full, sends are refused")]
    MemoryFull,
}

impl HealthProblem {
    /// That the broker ends, and why.
    pub(super) const fn of_shutdown(shutdown: Shutdown) -> Option<Self> {
        match shutdown {
            Shutdown::No => None,
            Shutdown::Asked => Some(Self::Stopping),
            Shutdown::Failed => Some(Self::Ended),
        }
    }

    /// Whether it is one that a restart may end.
    pub(super) const fn is_fatal(self) -> bool {
        matches!(self, Self::Ended | Self::Silent)
    }

    /// Whether clients can connect and receive nevertheless, at least those of some namespaces.
    pub(super) const fn is_partial(self) -> bool {
        matches!(self, Self::DiskFull | Self::MemoryFull | Self::Recovering { others: true })
    }
}

/// Result of the last probe, with its time.
#[derive(Debug, Default)]
pub(crate) struct LastProbe(pub(super) Mutex<Option<(Instant, Option<HealthProblem>)>>);
