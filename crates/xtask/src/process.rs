//! Runs a program, shows what it says, keeps it, and ends it when its time is up.
//!
//! Invariant: `run` returns within its limit plus a few seconds, whatever the program or its children do.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;

/// Result of a finished program.
pub(crate) struct Ran {
    pub(crate) ok: bool,
    /// Reason of a failure, for the report.
    pub(crate) reason: String,
    /// Standard output and standard error as they came.
    pub(crate) text: String,
}

/// Whether a program is there and says yes. Nobody hears what else it says.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A child that exited may leave a grandchild holding the pipe: we listen to it this long.
const LINGER: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);

/// Runs `command` without standard input; its output goes to ours and to `log`.
pub(crate) fn run(command: &mut Command, log: &Path, limit: Duration) -> Fallible<Ran> {
    run_as("", command, log, limit)
}

/// The same; each line on our standard output begins with `label`, because others run meanwhile.
pub(crate) fn run_as(label: &str, command: &mut Command, log: &Path, limit: Duration) -> Fallible<Ran> {
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut log = File::create(log)?;
    let (reader, writer) = std::io::pipe()?;
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().map_err(|error| format!("`{name}`: {error}"))?;
    // The command holds our copies of the writing end: without this the reader never sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let lines = lines_of(reader);
    let mut text = String::new();
    let status = follow(&mut child, &lines, limit, |line| {
        let mut out = std::io::stdout().lock();
        out.write_all(label.as_bytes())?;
        out.write_all(line)?;
        out.flush()?;
        log.write_all(line)?;
        text.push_str(&String::from_utf8_lossy(line));
        Ok(())
    })?;
    Ok(match status {
        None => Ran { ok: false, reason: format!("stopped after {} s", limit.as_secs()), text },
        Some(status) => Ran { ok: status.success(), reason: status.to_string(), text },
    })
}

fn lines_of(reader: impl std::io::Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(count) if count > 0 && sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

/// Hands every line to `sink` until the child is gone; `None` means its time ran out.
fn follow(
    child: &mut Child,
    lines: &Receiver<Vec<u8>>,
    limit: Duration,
    mut sink: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Fallible<Option<ExitStatus>> {
    let start = Instant::now();
    let mut exited: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => sink(&line)?,
            Err(RecvTimeoutError::Disconnected) if exited.is_some() => thread::yield_now(),
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if exited.is_none() {
            exited = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        match exited {
            Some((status, at)) if lines_ended(lines, &mut sink)? || at.elapsed() > LINGER => {
                return Ok(Some(status));
            }
            None if start.elapsed() > limit => {
                kill_tree(child.id());
                child.wait()?;
                return Ok(None);
            }
            _ => {}
        }
    }
}

/// Takes what is ready; true when nothing more can come.
fn lines_ended(
    lines: &Receiver<Vec<u8>>,
    sink: &mut impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Fallible<bool> {
    loop {
        match lines.try_recv() {
            Ok(line) => sink(&line)?,
            Err(error) => return Ok(error == std::sync::mpsc::TryRecvError::Disconnected),
        }
    }
}

/// Ends a process and all its descendants at once (Linux; elsewhere only the process).
fn kill_tree(root: u32) {
    let mut doomed = vec![root];
    let parents = parents();
    let mut next = 0;
    while let Some(&pid) = doomed.get(next) {
        doomed.extend(parents.iter().filter(|&(_, &parent)| parent == pid).map(|(&child, _)| child));
        next += 1;
    }
    signal("KILL", &doomed);
}

/// Sends a signal by its name. One that is gone already is no error.
fn signal(name: &str, pids: &[u32]) {
    let sent = Command::new("kill")
        .arg("-s")
        .arg(name)
        .args(pids.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
    if let Err(error) = sent {
        eprintln!("xtask: `kill`: {error}");
    }
}

/// Each process's parent.
fn parents() -> BTreeMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name in parentheses may hold anything; what follows the last one is fixed.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

#[cfg(test)]
mod tests;
