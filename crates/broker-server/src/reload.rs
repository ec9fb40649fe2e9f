//! The state that a running server replaces: its certificate, and the rights of its clients.
//!
//! Invariant: a reload that cannot be done whole changes nothing; what it takes away counts for connections that are open too.

use std::sync::Arc;

use broker_auth::Authority;
use tokio::sync::watch;

use crate::{
    clock::Clock,
    jwks_refresh::{Fetcher, KeyRefreshers, KeySource},
    remote::RemoteError,
    tls::{TlsEndpoint, TlsError, TlsFiles},
};

/// New state for a running server.
#[derive(Debug)]
pub struct ReloadableConfig {
    /// Certificate and key. A server that began without TLS goes on without.
    pub tls: Option<TlsFiles>,
    /// The configured rights; keys of entities are not part of it.
    pub authority: Authority,
    /// The places from which the keys of its issuers come.
    pub key_sources: Vec<KeySource>,
}

/// Reason why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A provider of keys cannot be asked.
    #[error(transparent)]
    KeySource(#[from] RemoteError),
}

/// Owns the state that a reload replaces.
#[derive(Debug)]
pub struct Reloader {
    pub(crate) authority: Arc<Authority>,
    pub(crate) tls: Arc<TlsEndpoint>,
    pub(crate) key_refreshers: KeyRefreshers,
    /// Has every connection look at its links.
    pub(crate) lost_keys: watch::Sender<()>,
    pub(crate) clock: Arc<Clock>,
}

impl Reloader {
    /// Replaces all of it, or nothing.
    pub fn reload(&mut self, new: ReloadableConfig) -> Result<(), ReloadError> {
        let ReloadableConfig { tls, authority, key_sources } = new;
        let tls = tls.filter(|_| self.tls.acceptor().is_some());
        let loaded = tls.map(|files| self.tls.read(&files)).transpose()?;
        let fetchers = Fetcher::all(&key_sources)?;
        // From here on nothing fails.
        self.key_refreshers.hand_over(&key_sources, &authority.issuers());
        if self.authority.reconfigure(&authority) {
            self.lost_keys.send_replace(());
        }
        self.key_refreshers.keep(fetchers, &self.authority.issuers());
        if let Some(loaded) = loaded {
            self.tls.show(loaded);
            self.tls.check(self.clock.utc());
        }
        Ok(())
    }
}
