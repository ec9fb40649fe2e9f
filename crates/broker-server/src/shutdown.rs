//! Shutdown signal of the server.
//!
//! Invariant: a shutdown is never revoked; dropping the server counts as a shutdown.

use tokio::sync::watch;

/// Whether, and why, everything is to end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Shutdown {
    /// Not yet.
    #[default]
    No,
    /// It was asked for.
    Asked,
    /// The node has ended by itself: nothing more can be answered.
    Failed,
}

/// Says it, unless it has been said.
pub(crate) fn order(to: &watch::Sender<Shutdown>, stop: Shutdown) {
    to.send_if_modified(|said| {
        let first = *said == Shutdown::No;
        if first {
            *said = stop;
        }
        first
    });
}

/// Waits until it is said.
pub(crate) async fn ordered(news: &mut watch::Receiver<Shutdown>) -> Shutdown {
    match news.wait_for(|stop| *stop != Shutdown::No).await {
        Ok(stop) => *stop,
        // The server is gone, which is a reason to stop, too.
        Err(_) => Shutdown::Asked,
    }
}

/// Result of `work`, or the shutdown that interrupted it.
pub(crate) async fn unless_stopped<T>(
    news: &watch::Receiver<Shutdown>,
    work: impl Future<Output = T>,
) -> Result<T, Shutdown> {
    let mut news = news.clone();
    tokio::select! {
        biased;
        done = work => Ok(done),
        stop = ordered(&mut news) => Err(stop),
    }
}
