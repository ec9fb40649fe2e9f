//! Queue of scrapes.
//!
//! Invariant: one scrape is made at a time, so however many ask, the memory of one is in use.

use tokio::sync::Semaphore;

/// Lets one scrape be made at a time; the others wait in the order in which they came.
pub(crate) struct Scrapes(Semaphore);

impl Default for Scrapes {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Scrapes {
    /// Makes a scrape when its turn has come.
    pub(super) async fn alone<T>(&self, scrape: impl Future<Output = T>) -> Option<T> {
        let _place = self.0.acquire().await.ok()?;
        Some(scrape.await)
    }
}

#[cfg(test)]
mod tests;
