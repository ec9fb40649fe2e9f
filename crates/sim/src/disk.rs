//! Faults of the simulated disk.
//!
//! Invariant: the seed decides every fault; while `calm`, only faults that end a start strike.

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
pub(crate) struct DiskFaults {
    /// Nothing fails while set. Crashes still tear.
    pub(crate) calm: Arc<AtomicBool>,
    /// Number of failed calls.
    pub(crate) failures: Arc<AtomicU64>,
    /// Fault armed for the current start.
    armed_fault: Arc<Mutex<Option<ArmedFault>>>,
    /// The next read fails.
    read_armed: Arc<AtomicBool>,
    rng: Rng,
    per_ten_thousand: u64,
}

impl DiskFaults {
    pub(crate) fn new(rng: Rng, per_ten_thousand: u64) -> Self {
        let (calm, failures, armed_fault, read_armed) = Default::default();
        Self { calm, failures, armed_fault, read_armed, rng, per_ten_thousand }
    }

    /// Those of another shard's disk: a sequence of its own, and the same switches. The first shard has this one.
    pub(crate) fn of_shard(&self, number: u64) -> Self {
        let rng = match number {
            0 => self.rng.clone(),
            number => Rng::new(self.rng.clone().next() ^ number),
        };
        Self { rng, ..self.clone() }
    }

    /// Lets something happen to the next start.
    pub(crate) fn arm(&self, armed_fault: ArmedFault) {
        *self.armed_fault() = Some(armed_fault);
    }

    /// Lets the next read fail now and then, which hides a message until the next start. Says whether it does.
    pub(crate) fn arm_read(&self, rng: &mut Rng) -> bool {
        let fails = !self.calm.load(Ordering::Relaxed) && rng.below(2_000) < self.per_ten_thousand;
        self.read_armed.store(fails, Ordering::Relaxed);
        fails
    }

    /// The journal is read and open.
    pub(crate) fn opened(&self) {
        if let Some(armed_fault) = &mut *self.armed_fault() {
            armed_fault.is_open = true;
        }
    }

    /// Takes it away; says whether it has gone off.
    pub(crate) fn take_armed_fault(&self) -> bool {
        self.armed_fault().take().is_some_and(|armed_fault| armed_fault.gone_off)
    }

    /// Whether the start that is under way has met what was meant for it.
    pub(crate) fn has_struck(&self) -> bool {
        self.armed_fault().is_some_and(|armed_fault| armed_fault.gone_off)
    }

    /// Whether the process whose start is under way is gone.
    pub(crate) fn is_killed(&self) -> bool {
        self.armed_fault()
            .is_some_and(|armed_fault| armed_fault.gone_off && armed_fault.mishap == StartFault::Killed)
    }

    fn armed_fault(&self) -> MutexGuard<'_, Option<ArmedFault>> {
        // It is whole after every statement that changes it.
        self.armed_fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fault that strikes a start.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StartFault {
    /// The process is killed: this call and all that follow come to nothing.
    Killed,
    /// One call fails.
    Fails,
    /// The disk is full, from this call on.
    Full,
}

/// Something that happens to a start at one of its disk calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmedFault {
    pub(crate) mishap: StartFault,
    /// Calls that succeed before it.
    before: u64,
    calls: u64,
    gone_off: bool,
    /// The journal is open: a message that cannot be read now is hidden until the next start.
    is_open: bool,
}

impl ArmedFault {
    /// At any call of a start: most have few.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let mishap = match rng.below(4) {
            0 => StartFault::Fails,
            1 => StartFault::Full,
            _ => StartFault::Killed,
        };
        let most = 1 << rng.below(8);
        Self { mishap, before: rng.below(most), calls: 0, gone_off: false, is_open: false }
    }

    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        if self.is_open && self.mishap == StartFault::Fails && matches!(call, DiskCall::Read(_)) {
            return None;
        }
        let (is_first, is_behind) = (self.calls == self.before, self.calls >= self.before);
        self.calls += 1;
        let needs_space = matches!(call, DiskCall::Create(_) | DiskCall::Write(_) | DiskCall::SetAside);
        let kind = match self.mishap {
            StartFault::Killed if is_behind => io::ErrorKind::BrokenPipe,
            StartFault::Fails if is_first => io::ErrorKind::Other,
            StartFault::Full if is_behind && needs_space => io::ErrorKind::StorageFull,
            _ => return None,
        };
        self.gone_off = true;
        Some(kind)
    }
}

impl Faults for DiskFaults {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        if let Some(armed_fault) = &mut *self.armed_fault() {
            return armed_fault.fails(call);
        }
        if matches!(call, DiskCall::Read(..)) && self.read_armed.swap(false, Ordering::Relaxed) {
            return Some(io::ErrorKind::Other);
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
