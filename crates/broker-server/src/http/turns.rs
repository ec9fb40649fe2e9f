//! Turns of HTTP connections on their thread.
//!
//! Invariant: for each answer to one client, each other connection of the thread that has something to do has a turn.

use tokio::task;

/// Answers once other connections of the thread have had their turns. A client may send many requests at once; hyper
/// looks at those that it has read one after another, up to 16 before it lets others work, and none of that counts as
/// input or output by which tokio would end its turn.
pub(super) async fn after_others<T>(answer: impl Future<Output = T>) -> T {
    task::yield_now().await;
    answer.await
}

#[cfg(test)]
mod tests;
