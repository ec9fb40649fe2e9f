//! Memory limit of the control group in which the process runs.
//!
//! Invariant: a file that cannot be read sets no limit.

use std::{fs, path::Path};

/// The least memory limit of the process's control group and of those above it. `mount` is where control groups are mounted
/// (`/sys/fs/cgroup`), `own` the file that names those of the process (`/proc/self/cgroup`).
pub(crate) fn memory_limit(mount: &Path, own: &Path) -> Option<u64> {
    let own = fs::read_to_string(own).unwrap_or_default();
    let of_version_2 = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let of_version_1 = own.lines().find_map(memory_group).unwrap_or("/");
    let limits = limits(mount, of_version_2, "memory.max");
    limits.chain(self::limits(&mount.join("memory"), of_version_1, "memory.limit_in_bytes")).min()
}

/// The path in `4:memory:/path`, a line about the memory controller of version 1.
fn memory_group(line: &str) -> Option<&str> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    controllers.split(',').any(|controller| controller == "memory").then_some(path)
}

/// Limits of the group at `path` and of those above it. A container sees the path of its host there, but its own group as
/// the topmost one.
fn limits(mount: &Path, path: &str, file: &str) -> impl Iterator<Item = u64> {
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    groups.filter_map(move |group| {
        let text = fs::read_to_string(mount.join(group).join(file)).ok()?;
        // Version 2 says `max` for no limit, version 1 the largest number of pages.
        text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
    })
}

/// A number above that of any machine.
const UNLIMITED: u64 = 1 << 60;

#[cfg(test)]
mod tests;
