//! CPU and memory of a process (Linux).
//!
//! Invariant: CPU is that of all threads that the process has, to the nanosecond: hundredths of a second, in which
//! `/proc/PID/stat` counts, are too coarse for runs that use a tenth of one.

use std::time::Duration;

use crate::Fallible;

/// Time that the threads of a process were on a core, and that they were ready and had none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) waited: Duration,
}

impl Usage {
    /// Of a process so far.
    pub(crate) fn of(pid: u32) -> Fallible<Self> {
        let mut usage = Self::default();
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end meanwhile.
            let Ok(times) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            let mut times = times.split_whitespace().map(|nanos| nanos.parse().map(Duration::from_nanos));
            usage.cpu += times.next().ok_or("the kernel does not count")??;
            usage.waited += times.next().ok_or("the kernel does not count")??;
        }
        Ok(usage)
    }

    /// The part that came after `earlier`. A thread that has ended takes its times with it.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), waited: self.waited.saturating_sub(earlier.waited) }
    }
}

/// CPU that a process has used.
pub(crate) fn cpu(pid: u32) -> Fallible<Duration> {
    Ok(Usage::of(pid)?.cpu)
}

/// Resident memory of a process in kilobytes.
pub(crate) fn rss_kb(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
}
