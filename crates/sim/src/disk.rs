//! The faults of the simulated disk.
//!
//! Invariant: a fault is a decision of the seed; while `calm`, nothing fails.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use broker_log::{DiskCall, Faults};

use crate::rng::Rng;

/// Shared with the disk, so that the world can calm it.
#[derive(Clone, Debug)]
pub(crate) struct Mischief {
    /// Nothing fails while set. Crashes still tear.
    pub(crate) calm: Arc<AtomicBool>,
    /// How many calls have failed.
    pub(crate) failures: Arc<AtomicU64>,
    rng: Rng,
    per_ten_thousand: u64,
}

impl Mischief {
    pub(crate) fn new(rng: Rng, per_ten_thousand: u64) -> Self {
        Self { calm: Arc::default(), failures: Arc::default(), rng, per_ten_thousand }
    }
}

impl Faults for Mischief {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        // A broker that cannot read its journal refuses to start, which is right and would end the run.
        if self.calm.load(Ordering::Relaxed) || matches!(call, DiskCall::List | DiskCall::Read(..)) {
            return None;
        }
        if self.rng.below(10_000) >= self.per_ten_thousand {
            return None;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        Some(if self.rng.chance(30) { io::ErrorKind::StorageFull } else { io::ErrorKind::Other })
    }

    fn sector_survives(&mut self) -> bool {
        self.rng.chance(50)
    }
}
