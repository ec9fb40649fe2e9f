//! Refresh of the keys of identity providers: periodically, and when a token names an unknown key.
//!
//! Invariant: however many tokens ask for it, a provider is asked at most once in [`PAUSE_MIN`], and once more by each
//! reload, with bounded time and size; keys that are held stay as they are until a whole new set is there.

use std::{fmt, io, path::PathBuf, time::Duration};

use broker_auth::{Authority, Issuer, KEY_SET_BYTES_MAX, KeySet};
use bytes::Bytes;
use hyper::{Request, header::ACCEPT};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use crate::remote::{Remote, RemoteError};

/// Source of a provider's keys.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// Which of the authority's issuers they are for.
    pub issuer: usize,
    /// `https://…`, or `http://…` on a network that cannot be intercepted.
    pub url: String,
    /// Authorities to trust for `https`, in a PEM file.
    pub authorities: Option<PathBuf>,
}

/// Time between two fetches at least, however many tokens ask.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Time between two fetches without a request for one.
const PAUSE: Duration = Duration::from_secs(3600);
/// The same after one that failed.
const PAUSE_FAILED: Duration = Duration::from_secs(60);
/// Time for one fetch.
const PATIENCE: Duration = Duration::from_secs(10);

/// All tasks that refresh keys.
pub(crate) struct KeyRefreshers {
    runtime: Handle,
    /// Changes with each token that names an unknown key.
    wanted: watch::Sender<u64>,
    running: Vec<(KeySource, Issuer, AbortHandle)>,
}

impl KeyRefreshers {
    /// None yet. They are asked for fresh keys by `authority`.
    pub(crate) fn new(authority: &Authority, runtime: Handle) -> Self {
        let refreshers = Self { runtime, wanted: watch::Sender::new(0_u64), running: Vec::new() };
        refreshers.serve(authority);
        refreshers
    }

    /// From now on `authority` asks these for fresh keys, and no others.
    pub(crate) fn serve(&self, authority: &Authority) {
        let wanted = self.wanted.clone();
        authority.on_keys_wanted(move || wanted.send_modify(|times| *times = times.wrapping_add(1)));
    }

    /// Changes with each token that names an unknown key.
    pub(crate) fn watch_wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// Sees to it that a provider whose keys come from where they came from goes on with those that are known.
    pub(crate) fn hand_over(&self, sources: &[KeySource], new: &[Issuer]) {
        for source in sources {
            let Some(issuer) = new.get(source.issuer) else { continue };
            let same = self.running.iter().find(|(running, known, _)| {
                running.url == source.url && known.config().issuer == issuer.config().issuer
            });
            if let Some((_, known, _)) = same {
                issuer.take_keys_of(known);
            }
        }
    }

    /// Keeps the keys of these providers from now on, and of no others. Each is asked at once.
    pub(crate) fn keep(&mut self, sources: Vec<(KeySource, Fetcher)>, issuers: &[Issuer]) {
        for (.., task) in self.running.drain(..) {
            task.abort();
        }
        for (source, fetcher) in sources {
            let Some(issuer) = issuers.get(source.issuer) else { continue };
            let keeper = KeySetRefresher { issuer: issuer.clone(), fetcher };
            let task = self.runtime.spawn(keeper.keep(self.watch_wanted()));
            self.running.push((source, issuer.clone(), task.abort_handle()));
        }
    }
}

impl fmt::Debug for KeyRefreshers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRefreshers").field("running", &self.running.len()).finish_non_exhaustive()
    }
}

/// One provider's keys at work.
struct KeySetRefresher {
    issuer: Issuer,
    fetcher: Fetcher,
}

impl KeySetRefresher {
    /// Fetches for as long as the server runs. `wanted` changes with each token that names an unknown key.
    async fn keep(self, mut wanted: watch::Receiver<u64>) {
        loop {
            // A wish from before this fetch is served by it.
            wanted.mark_unchanged();
            let pause = if self.fetch().await { PAUSE } else { PAUSE_FAILED };
            sleep(PAUSE_MIN).await;
            // The sender lives as long as the server, with which this ends.
            drop(timeout(pause, wanted.changed()).await);
        }
    }

    /// Exchanges the keys for those at the URL; false if there are none to be had.
    async fn fetch(&self) -> bool {
        let fetched = match timeout(PATIENCE, self.fetcher.ask()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let url = self.fetcher.0.url();
        match fetched.and_then(|text| KeySet::parse(&text).map_err(io::Error::other)) {
            Ok(keys) => {
                info!(%url, keys = keys.len(), "keys of an identity provider");
                self.issuer.renew(keys);
                true
            }
            Err(error) => {
                warn!(%url, %error, "the keys of an identity provider cannot be had; those known stay");
                false
            }
        }
    }
}

/// The way to one provider's keys.
pub(crate) struct Fetcher(Remote);

impl Fetcher {
    /// The ways to all of these. Checks that the URLs and the authorities can be used.
    pub(crate) fn all(sources: &[KeySource]) -> Result<Vec<(KeySource, Self)>, RemoteError> {
        sources.iter().map(|source| Ok((source.clone(), Self::new(source)?))).collect()
    }

    fn new(source: &KeySource) -> Result<Self, RemoteError> {
        Remote::new(&source.url, source.authorities.as_deref()).map(Self)
    }

    async fn ask(&self) -> io::Result<Bytes> {
        let request = Request::get("/").header(ACCEPT, "application/json");
        let keys = self.0.exchange(request, Bytes::new(), KEY_SET_BYTES_MAX).await?;
        keys.ok_or_else(|| io::Error::other(format!("more than {KEY_SET_BYTES_MAX} bytes, or cut off")))
    }
}
