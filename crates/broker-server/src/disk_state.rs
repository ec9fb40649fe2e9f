//! The state of the journal's disk, and its lines in the log.
//!
//! Invariant: a full disk is measured again while nothing is sent, so it is told that it has room.

use std::{path::PathBuf, time::Duration};

use tokio::{sync::watch, time::timeout};
use tracing::{error, info};

use crate::{
    clock,
    full_log::{FullLog, FullLogLine},
};

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
    let mut log = FullLog::default();
    loop {
        let space = *news.borrow_and_update();
        if let Some(line) = log.look(clock::instant(), space.is_full) {
            write(line, &volume, space);
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

/// Writes a line that is due.
fn write(
    line: FullLogLine,
    Volume { path, reserve_bytes }: &Volume,
    DiskState { free_bytes, .. }: DiskState,
) {
    let path = path.display();
    match line {
        FullLogLine::Full => error!(
            %path,
            free_bytes,
            reserve_bytes,
            "the disk is full: sends are refused; make room on the disk, or let receivers empty the queues"
        ),
        FullLogLine::StillFull { since, now } => {
            let full_seconds = now.saturating_duration_since(since).as_secs();
            error!(%path, free_bytes, reserve_bytes, full_seconds, "the disk is still full: sends are refused");
        }
        FullLogLine::Free => {
            info!(%path, free_bytes, reserve_bytes, "the disk has room again: sends are accepted");
        }
    }
}

/// Time between two measurements of a full disk.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
