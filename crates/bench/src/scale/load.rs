//! The loads under which numbers of shards are compared.
//!
//! They answer two questions. A broker that is given as much as it takes is bound by the disk, which all its shards share; a
//! shard whose clients wait for their answers is bound by the time of a sync, and there another shard helps.

/// Threads, and the number of messages that each sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Load {
    /// The same threads for every number of shards, each with so many messages without an answer that the disk is always busy.
    Full,
    /// A thread for each shard, which sends a batch and waits until it is answered.
    Rounds,
}

/// All of them, in the order of the report.
pub(super) const LOADS: [Load; 2] = [Load::Rounds, Load::Full];

/// Threads of [`Load::Full`]: one for each of the most shards.
const THREADS: u16 = 4;

impl Load {
    /// Threads that make commands for so many shards.
    pub(super) const fn threads(self, shards: u16) -> u16 {
        match self {
            Self::Full => THREADS,
            Self::Rounds => shards,
        }
    }

    /// Publish commands of a batch.
    pub(super) const fn batch(self) -> u32 {
        match self {
            Self::Full => 250,
            Self::Rounds => 500,
        }
    }

    /// Messages of a thread without an answer, at most.
    pub(super) const fn window(self) -> u32 {
        match self {
            Self::Full => 8 * self.batch(),
            Self::Rounds => self.batch(),
        }
    }

    /// Its line in the report.
    pub(super) fn explanation(self) -> String {
        let (batch, window) = (self.batch(), self.window());
        match self {
            Self::Full => format!(
                "{THREADS} threads for every number of shards, {batch} commands a batch, {window} messages of a thread without an answer at most"
            ),
            Self::Rounds => {
                format!("a thread for each shard, which sends {batch} commands and waits for all answers")
            }
        }
    }
}
