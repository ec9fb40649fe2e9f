//! The faults of the simulated disk.
//!
//! Invariant: a fault is a decision of the seed; while `calm`, nothing fails but what ends a start.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
    /// What happens to the start that is under way.
    trap: Arc<Mutex<Option<Trap>>>,
    rng: Rng,
    per_ten_thousand: u64,
}

impl Mischief {
    pub(crate) fn new(rng: Rng, per_ten_thousand: u64) -> Self {
        let (calm, failures, trap) = Default::default();
        Self { calm, failures, trap, rng, per_ten_thousand }
    }

    /// Lets something happen to the next start.
    pub(crate) fn set_trap(&self, trap: Trap) {
        *self.trap() = Some(trap);
    }

    /// The journal is read and open.
    pub(crate) fn opened(&self) {
        if let Some(trap) = &mut *self.trap() {
            trap.is_open = true;
        }
    }

    /// Takes it away; says whether it has gone off.
    pub(crate) fn take_trap(&self) -> bool {
        self.trap().take().is_some_and(|trap| trap.gone_off)
    }

    /// Whether the start that is under way has met what was meant for it.
    pub(crate) fn has_trapped(&self) -> bool {
        self.trap().is_some_and(|trap| trap.gone_off)
    }

    /// Whether the process whose start is under way is gone.
    pub(crate) fn is_killed(&self) -> bool {
        self.trap().is_some_and(|trap| trap.gone_off && trap.mishap == Mishap::Killed)
    }

    fn trap(&self) -> MutexGuard<'_, Option<Trap>> {
        // It is whole after every statement that changes it.
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens to a start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mishap {
    /// The process is killed: this call and all that follow come to nothing.
    Killed,
    /// One call fails.
    Fails,
    /// The disk is full, from this call on.
    Full,
}

/// Something that happens to a start at one of its disk calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trap {
    pub(crate) mishap: Mishap,
    /// Calls that succeed before it.
    before: u64,
    calls: u64,
    gone_off: bool,
    /// The journal is open: a message that cannot be read now is hidden until the next start.
    is_open: bool,
}

impl Trap {
    /// At any call of a start: most have few.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mishap = match rng.below(4) {
            0 => Mishap::Fails,
            1 => Mishap::Full,
            _ => Mishap::Killed,
        };
        let most = 1 << rng.below(8);
        Self { mishap, before: rng.below(most), calls: 0, gone_off: false, is_open: false }
    }

    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        if self.is_open && self.mishap == Mishap::Fails && matches!(call, DiskCall::Read(_)) {
            return None;
        }
        let (is_first, is_behind) = (self.calls == self.before, self.calls >= self.before);
        self.calls += 1;
        let needs_space = matches!(call, DiskCall::Create(_) | DiskCall::Write(_) | DiskCall::SetAside);
        let kind = match self.mishap {
            Mishap::Killed if is_behind => io::ErrorKind::BrokenPipe,
            Mishap::Fails if is_first => io::ErrorKind::Other,
            Mishap::Full if is_behind && needs_space => io::ErrorKind::StorageFull,
            _ => return None,
        };
        self.gone_off = true;
        Some(kind)
    }
}

impl Faults for Mischief {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        if let Some(trap) = &mut *self.trap() {
            return trap.fails(call);
        }
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
