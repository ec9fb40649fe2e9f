//! Recovery of a node from its journal.
//!
//! Invariant: replay applies facts in journal order and decides nothing.

use broker_core::{CoreConfig, Position, ReplayError};
use broker_log::{Disk, Journal, JournalConfig};

use crate::{Node, namespace::registry::Namespaces};

/// Reason why a node cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The journal cannot be read, or is damaged.
    #[error(transparent)]
    Journal(#[from] broker_log::RecoveryError),
    /// A record makes no sense to the core: another program's, or a newer version's.
    #[error("the record at journal position {} cannot be replayed: {error}", at.0)]
    Replay { at: Position, error: ReplayError },
}

/// Replays the journal on `disk`.
pub fn recover<D: Disk + 'static>(
    disk: D,
    journal: JournalConfig,
    core: CoreConfig,
) -> Result<Node, RecoveryError> {
    let mut namespaces = Namespaces::new(core);
    let mut failure = None;
    let read = broker_log::read(disk, journal, &mut |at, record| {
        if failure.is_none()
            && let Err(error) = namespaces.replay(at, record.index(), record.len())
        {
            failure = Some(RecoveryError::Replay { at: Position(at.0), error });
        }
    })?;
    if let Some(failure) = failure {
        // The journal is not opened: another program, or a newer version, finds it as it was.
        return Err(failure);
    }
    Ok(Node::start(namespaces, read.open()?))
}

/// A node whose journal lives in memory (durability `none`).
pub fn in_memory(journal: JournalConfig, core: CoreConfig) -> Node {
    Node::in_memory(Journal::in_memory(journal), core)
}

#[cfg(test)]
mod tests;
