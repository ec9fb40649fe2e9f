//! The log of a disk that is full: when sends begin to be refused, each minute while they are, and when they are taken
//! again.
//!
//! Invariant: at most one line a minute says that the disk is full, and one more that it is no longer, however often
//! the state changes.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::{sync::watch, time::timeout};
use tracing::{error, info};

use crate::clock;

/// The state of the journal's disk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct DiskState {
    /// The reserve is in use, so sends are refused.
    pub(crate) is_full: bool,
    /// Free bytes when they were last measured; `None`: never.
    pub(crate) free_bytes: Option<u64>,
}

/// The folder of the journal, and the bytes that are kept free there.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) path: PathBuf,
    pub(crate) reserve_bytes: u64,
}

/// Writes the log for as long as there is a node. `measure` has it measure the disk again, with the result in the news.
pub(crate) async fn log_full_disk(
    volume: Volume,
    mut news: watch::Receiver<DiskState>,
    measure: impl Fn() + Send,
) {
    let mut log = DiskFullLog::default();
    loop {
        let space = *news.borrow_and_update();
        if let Some(line) = log.look(clock::instant(), space.is_full) {
            line.write(&volume, space);
        }
        let changed = news.changed();
        let changed = if space.is_full { timeout(LOOK_INTERVAL, changed).await } else { Ok(changed.await) };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            // A full disk is measured with each send. Without sends nothing would notice that it has space again.
            Err(_) => measure(),
        }
    }
}

/// The lines that were written.
#[derive(Debug, Default)]
struct DiskFullLog {
    full_since: Option<Instant>,
    /// The last line says that the disk is full.
    is_logged: bool,
    logged_at: Option<Instant>,
}

/// A line that is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Line {
    Full,
    StillFull { since: Instant, now: Instant },
    Free,
}

impl DiskFullLog {
    /// Takes the state at `now`.
    fn look(&mut self, now: Instant, is_full: bool) -> Option<Line> {
        if !is_full {
            self.full_since = None;
            return std::mem::take(&mut self.is_logged).then_some(Line::Free);
        }
        let since = *self.full_since.get_or_insert(now);
        if self.logged_at.is_some_and(|at| now.saturating_duration_since(at) < REMINDER_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        let is_reminder = std::mem::replace(&mut self.is_logged, true);
        Some(if is_reminder { Line::StillFull { since, now } } else { Line::Full })
    }
}

impl Line {
    fn write(self, Volume { path, reserve_bytes }: &Volume, DiskState { free_bytes, .. }: DiskState) {
        let path = path.display();
        match self {
            Self::Full => error!(
                %path,
                free_bytes,
                reserve_bytes,
                "the disk is full: sends are refused; make room on the disk, or let receivers empty the queues"
            ),
            Self::StillFull { since, now } => {
                let full_seconds = now.saturating_duration_since(since).as_secs();
                error!(%path, free_bytes, reserve_bytes, full_seconds, "the disk is still full: sends are refused");
            }
            Self::Free => {
                info!(%path, free_bytes, reserve_bytes, "the disk has room again: sends are accepted");
            }
        }
    }
}

/// Time between two lines that say that the disk is full.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two measurements of a full disk.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
