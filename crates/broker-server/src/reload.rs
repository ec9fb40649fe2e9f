//! The state that a running server replaces: its certificate, and the rights of its clients.
//!
//! Invariant: a reload that cannot be done whole changes nothing; what it takes away counts for connections that are open too.

use std::sync::Arc;

use broker_auth::{Authority, Credentials};
use broker_core::NamespaceSettings;
use tokio::{runtime::Handle, sync::watch};

use crate::{
    administrators::Administrators,
    clock::Clock,
    config::NamespacePlan,
    jwks_refresh::{Fetcher, KeyRefreshers, KeySource},
    namespaces::{keys::NamespaceKeys, setup::NamespaceSetup},
    remote::RemoteError,
    tls::{TlsEndpoint, TlsError, TlsFiles},
};

/// New state for a running server.
#[derive(Debug)]
pub struct ReloadableConfig {
    /// Certificate and key. A server that began without TLS goes on without.
    pub tls: Option<TlsFiles>,
    /// The configured rights in the default namespace; keys of entities are not part of it.
    pub authority: Authority,
    /// The places from which the keys of its issuers come.
    pub key_sources: Vec<KeySource>,
    /// Hostnames, weight and limits of the default namespace; `None`: the configuration does not name it, and it keeps those
    /// that it has.
    pub default_namespace: Option<NamespaceSettings>,
    /// The other namespaces of the configuration. One that is missing here stays, without credentials of the configuration.
    pub namespaces: Vec<NamespacePlan>,
    /// Credentials that a namespace which an interface creates begins with, before its own keys.
    pub created_namespace: Credentials,
    /// Administrators of the installation.
    pub administrators: Authority,
}

impl ReloadableConfig {
    /// These rights in the default namespace, and nothing else.
    pub fn new(authority: Authority) -> Self {
        Self {
            tls: None,
            authority,
            key_sources: Vec::new(),
            default_namespace: None,
            namespaces: Vec::new(),
            created_namespace: Credentials::default(),
            administrators: Authority::new(Credentials::default()),
        }
    }
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
pub struct Reloader {
    pub(crate) authority: Arc<Authority>,
    pub(crate) tls: Arc<TlsEndpoint>,
    pub(crate) key_refreshers: KeyRefreshers,
    /// Has every connection look at its links.
    pub(crate) lost_keys: watch::Sender<()>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) administrators: Administrators,
    pub(crate) setup: NamespaceSetup,
    /// Key sets of the providers of namespaces beside the default one.
    pub(crate) namespace_keys: NamespaceKeys,
    pub(crate) runtime: Handle,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader").finish_non_exhaustive()
    }
}

impl Reloader {
    /// Replaces all of it, or nothing.
    pub fn reload(&mut self, new: ReloadableConfig) -> Result<(), ReloadError> {
        let ReloadableConfig {
            tls,
            authority,
            key_sources,
            default_namespace,
            namespaces,
            created_namespace,
            administrators,
        } = new;
        let tls = tls.filter(|_| self.tls.acceptor().is_some());
        let loaded = tls.map(|files| self.tls.read(&files)).transpose()?;
        let fetchers = Fetcher::all(&key_sources)?;
        let of_namespaces = NamespaceKeys::fetchers(&namespaces)?;
        // From here on nothing fails.
        self.key_refreshers.hand_over(&key_sources, &authority.issuers());
        if self.authority.reconfigure(&authority) {
            self.lost_keys.send_replace(());
        }
        self.key_refreshers.keep(fetchers, &self.authority.issuers());
        self.administrators.configured().reconfigure(&administrators);
        self.namespace_keys.hand_over(&namespaces);
        let authorities = namespaces.iter().map(NamespacePlan::entry).collect();
        self.setup.directory.reconfigure(authorities, created_namespace);
        self.namespace_keys.keep(of_namespaces, |name| self.setup.directory.configured_authority(name));
        drop(self.runtime.spawn(self.setup.clone().put_all(default_namespace, namespaces)));
        if let Some(loaded) = loaded {
            self.tls.show(loaded);
            self.tls.check(self.clock.utc());
        }
        Ok(())
    }
}
