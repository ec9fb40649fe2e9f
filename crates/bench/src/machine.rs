//! Description of the machine on which a figure was measured.
//!
//! Invariant: the description names no path and no host.

use std::process::Command;

/// Lets the brokers and the generator, which share this session, compete with each other and hardly with
/// the rest of the machine, until it is dropped. Where the kernel has no such file, or does not let us, the
/// run goes on.
pub(super) struct Claim {
    before: Option<String>,
}

const AUTOGROUP: &str = "/proc/self/autogroup";

impl Claim {
    pub(super) fn new() -> Self {
        // `/autogroup-9 nice 0`
        let text = std::fs::read_to_string(AUTOGROUP).unwrap_or_default();
        let before = text.split_whitespace().last().map(str::to_owned);
        if std::fs::write(AUTOGROUP, "-19").is_err() {
            println!(
                "cannot raise this session's weight: other work on this machine will show in the figures"
            );
        }
        Self { before }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && std::fs::write(AUTOGROUP, before).is_err()
        {
            println!("this session keeps its raised weight");
        }
    }
}

/// Processor, cores, memory, kernel and compiler in one line.
pub(super) fn description() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu =
        cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let memory = read("/proc/meminfo");
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gib = memory.map_or(0, |kb: u64| kb.div_ceil(1_048_576));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let (kernel, rustc) = (said("uname", &["-sr"]), said("rustc", &["--version"]));
    format!("{}, {cores} cores, {gib} GiB, {kernel}, {rustc}", cpu.unwrap_or("unknown processor"))
}

/// The day in UTC.
pub(super) fn today() -> String {
    said("date", &["-u", "+%Y-%m-%d"])
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
