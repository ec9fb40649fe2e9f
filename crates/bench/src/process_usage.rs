//! CPU and memory of a process (Linux).
//!
//! Invariant: CPU is that of all threads that the process has, to the nanosecond: hundredths of a second, in which
//! `/proc/PID/stat` counts, are too coarse for runs that use a tenth of one.

use std::time::Duration;

use crate::Fallible;

/// CPU that a process has used.
pub(crate) fn cpu(pid: u32) -> Fallible<Duration> {
    let mut used = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(times) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        let nanos = times.split_whitespace().next().ok_or("the kernel does not count")?;
        used += Duration::from_nanos(nanos.parse()?);
    }
    Ok(used)
}

/// Resident memory of a process in kilobytes.
pub(crate) fn rss_kb(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
}
