//! The certificate that the broker shows now, and how it is exchanged for the next.
//!
//! Invariant: a handshake sees one certificate with its key; files that cannot be used leave the one that is shown as it is.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use broker_auth::Authority;
use broker_core::Timestamp;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::{
    expiry::{ExpiryNotice, Remaining},
    files::{Loaded, TlsError, TlsFiles, load, stamps},
    stamp::Stamps,
};
use crate::{clock::Clock, permissions};

/// The TLS side of a server.
pub(crate) struct TlsEndpoint {
    /// `None` without TLS.
    shown: RwLock<Option<Shown>>,
    watched: Mutex<Option<Watched>>,
    /// Is told the names of the certificate.
    authority: Arc<Authority>,
    /// Is called when it has been told.
    names_told: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Clone)]
struct Shown {
    acceptor: TlsAcceptor,
    expires_at: Option<u64>,
}

/// The files of what is shown.
struct Watched {
    files: TlsFiles,
    stamps: Stamps,
    /// The error of the last attempt to take the files in, if that failed.
    refused: Option<String>,
    notice: ExpiryNotice,
}

impl TlsEndpoint {
    /// Shows what these files hold; nothing without files.
    pub(crate) fn new(files: Option<&TlsFiles>, authority: Arc<Authority>) -> Result<Self, TlsError> {
        let endpoint = Self {
            shown: RwLock::default(),
            watched: Mutex::default(),
            authority,
            names_told: OnceLock::new(),
        };
        if let Some(files) = files {
            endpoint.show(load(files)?);
        }
        Ok(endpoint)
    }

    /// Has `notify` called whenever the authority has been told the names of another certificate. Only the first call counts.
    pub(crate) fn on_names(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.names_told.set(Box::new(notify)).ok();
    }

    /// The acceptor of new connections; `None` without TLS.
    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.shown().map(|shown| shown.acceptor)
    }

    /// Expiry of the certificate, in seconds since 1970.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        self.shown()?.expires_at
    }

    fn shown(&self) -> Option<Shown> {
        // The acceptor is exchanged whole, so a panic cannot have left it half-changed.
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn watched(&self) -> MutexGuard<'_, Option<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads these files, to show what they hold. A refusal is noted, so that the next check does not log it again.
    pub(crate) fn read(&self, files: &TlsFiles) -> Result<Loaded, TlsError> {
        let loaded = load(files);
        if let (Err(error), Some(watched)) = (&loaded, &mut *self.watched())
            && watched.files.is_same(files)
        {
            watched.refused = Some(error.to_string());
        }
        loaded
    }

    /// From now on shows this to new connections.
    pub(crate) fn show(&self, loaded: Loaded) {
        let Loaded { files, acceptor, expires_at, host_names, stamps } = loaded;
        permissions::warn_of_open_key(&files.key);
        let notice = ExpiryNotice::default();
        *self.watched() = Some(Watched { files, stamps, refused: None, notice });
        self.authority.set_certified_names(host_names);
        if let Some(notify) = self.names_told.get() {
            notify();
        }
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Some(Shown { acceptor, expires_at });
    }

    /// Checks whether the files have changed, and takes them in if they have; says when the certificate is about to expire.
    pub(crate) fn check(&self, now: Timestamp) {
        self.take_in_changes();
        let Some(expires_at) = self.expires_at() else { return };
        let Some(watched) = &mut *self.watched() else { return };
        let certificate = watched.files.certificate.display();
        match watched.notice.due(now, expires_at) {
            Some(Remaining::Days(days)) => {
                warn!(%certificate, days, "the TLS certificate expires soon: renew it");
            }
            Some(Remaining::None) => {
                warn!(%certificate, "the TLS certificate has expired: clients refuse it");
            }
            None => {}
        }
    }

    fn take_in_changes(&self) {
        let (files, refused) = match &*self.watched() {
            Some(watched) if watched.refused.is_some() || stamps(&watched.files) != watched.stamps => {
                (watched.files.clone(), watched.refused.clone())
            }
            _ => return,
        };
        let certificate = files.certificate.display();
        match self.read(&files) {
            Ok(loaded) => {
                self.show(loaded);
                info!(%certificate, "the TLS certificate was read again, for its files have changed");
            }
            // The certificate is there before its key, as a rule: said once, and tried again.
            Err(error) if refused.is_none() => {
                warn!(%certificate, %error, "the changed TLS files cannot be used yet; the old certificate stays");
            }
            Err(_) => {}
        }
    }

    fn check_every(&self) -> Duration {
        self.watched().as_ref().map_or(IDLE, |watched| watched.files.check_every)
    }
}

impl std::fmt::Debug for TlsEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsEndpoint").field("expires_at", &self.expires_at()).finish_non_exhaustive()
    }
}

/// Checks the files now and then, for as long as the server runs.
pub(crate) async fn watch_files(endpoint: Arc<TlsEndpoint>, clock: Arc<Clock>) {
    loop {
        let (checked, time) = (Arc::clone(&endpoint), Arc::clone(&clock));
        // A file may be on a disk that takes its time.
        if tokio::task::spawn_blocking(move || checked.check(time.utc())).await.is_err() {
            warn!("the TLS files could not be checked");
        }
        tokio::time::sleep(endpoint.check_every()).await;
    }
}

/// Time between two checks where there is nothing to check.
const IDLE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
