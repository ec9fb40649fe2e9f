//! The word that the server ends, and how everybody hears it.
//!
//! Invariant: once said it is never taken back; a server that is gone without saying it has said it.

use tokio::sync::watch;

/// Whether, and why, everything is to end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Stop {
    /// Not yet.
    #[default]
    No,
    /// Somebody asked for it.
    Asked,
    /// The node has ended by itself: nothing more can be answered.
    Failed,
}

/// Says it, unless it has been said.
pub(crate) fn order(to: &watch::Sender<Stop>, stop: Stop) {
    to.send_if_modified(|said| {
        let first = *said == Stop::No;
        if first {
            *said = stop;
        }
        first
    });
}

/// Waits until it is said.
pub(crate) async fn ordered(news: &mut watch::Receiver<Stop>) -> Stop {
    match news.wait_for(|stop| *stop != Stop::No).await {
        Ok(stop) => *stop,
        // The server is gone, which is a reason to stop, too.
        Err(_) => Stop::Asked,
    }
}

/// What `work` comes to, or why it was broken off.
pub(crate) async fn unless_stopped<T>(
    news: &watch::Receiver<Stop>,
    work: impl Future<Output = T>,
) -> Result<T, Stop> {
    let mut news = news.clone();
    tokio::select! {
        biased;
        done = work => Ok(done),
        stop = ordered(&mut news) => Err(stop),
    }
}
