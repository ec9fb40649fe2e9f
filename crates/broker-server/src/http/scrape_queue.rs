//! Queue of scrapes, and the memory of their answers.
//!
//! Invariant: one scrape is made at a time, and answers that are not read to their end have [`UNREAD_BYTES_MAX`] together, or are one.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all answers that are not read yet.
const UNREAD_BYTES_MAX: usize = 64 << 20;
/// Unit in which they are counted.
const UNIT: usize = 1 << 10;

/// Lets one scrape be made at a time; the others wait in the order in which they came.
pub(crate) struct Scrapes {
    turn: Semaphore,
    /// Units that are left for answers.
    room: Arc<Semaphore>,
}

/// Room for an answer, until it is read.
#[derive(Debug)]
pub(super) struct AnswerRoom(
    #[expect(dead_code, reason = "it is given back when dropped")] OwnedSemaphorePermit,
);

impl Default for Scrapes {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), room: Arc::new(Semaphore::new(UNREAD_BYTES_MAX / UNIT)) }
    }
}

impl Scrapes {
    /// Makes a scrape when its turn has come.
    pub(super) async fn alone<T>(&self, scrape: impl Future<Output = T>) -> Option<T> {
        let _place = self.turn.acquire().await.ok()?;
        Some(scrape.await)
    }

    /// Room for an answer of so many bytes; `None`: the unread ones leave none. One that is larger than all may be is alone.
    pub(super) fn keep(&self, bytes: usize) -> Option<AnswerRoom> {
        let units = u32::try_from(bytes.div_ceil(UNIT).min(UNREAD_BYTES_MAX / UNIT)).ok()?;
        Arc::clone(&self.room).try_acquire_many_owned(units).ok().map(AnswerRoom)
    }
}

#[cfg(test)]
mod tests;
