//! Gate of the recoveries of shards: tests keep it shut, and see what the broker does meanwhile.
//!
//! Invariant: without a test it is open.

use std::{fmt, sync::Arc};

/// A shard that has panicked passes here before it reads its journal again.
#[derive(Clone, Default)]
pub struct RecoveryGate(Option<Arc<dyn Fn(u16) + Send + Sync>>);

impl RecoveryGate {
    /// A gate that calls this with the number of each shard which comes, and opens when it returns. The files of the shard are closed
    /// by then.
    pub fn new(pass: impl Fn(u16) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(pass)))
    }

    /// A shard comes. Returns when it may recover.
    pub(crate) fn pass(&self, shard: u16) {
        if let Some(pass) = &self.0 {
            pass(shard);
        }
    }
}

impl fmt::Debug for RecoveryGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryGate").finish_non_exhaustive()
    }
}
