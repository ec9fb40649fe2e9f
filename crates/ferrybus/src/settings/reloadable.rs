//! The part of the settings that a running broker replaces: its certificate and the rights of its clients.
//!
//! Invariant: a start and a reload make it in the same way.

use std::time::Duration;

use broker_auth::{Authority, Credentials, Issuer};
use broker_core::Profile;
use broker_server::{KeySource, ReloadableConfig, TlsFiles};

use super::{
    Settings, Tls,
    credentials::credentials,
    issuers::issuers,
    limit::{Amount, TLS_CHECK_INTERVAL},
};
use crate::failure::Failure;

/// The state that a reload replaces.
#[derive(Debug)]
pub(crate) struct Reloadable {
    pub(crate) tls: Option<TlsFiles>,
    /// Names of the broker that the operator has given.
    pub(crate) host_names: Vec<String>,
    pub(crate) credentials: Credentials,
    /// The credentials are the built-in ones.
    pub(crate) development: bool,
    pub(crate) issuers: Vec<Issuer>,
    pub(crate) key_sources: Vec<KeySource>,
}

impl Reloadable {
    /// Checks these settings, for a broker that only its own machine can reach if `loopback` says so. Reads the files that the settings
    /// name, except those of TLS.
    pub(crate) fn new(settings: &Settings, loopback: bool) -> Result<Self, Failure> {
        let credentials = credentials(settings, loopback)?;
        let development = settings.key.is_empty() && !credentials.keys.is_empty();
        let (issuers, key_sources) = issuers(&settings.issuer)?;
        let tls = settings.tls.as_ref().map(tls_files).transpose()?;
        let host_names = settings.host_names()?;
        Ok(Self { tls, host_names, credentials, development, issuers, key_sources })
    }

    /// In the words of the server.
    pub(crate) fn into_config(self) -> ReloadableConfig {
        let Self { tls, host_names, credentials, issuers, key_sources, .. } = self;
        let host_names = host_names.into_iter().collect();
        let authority = Authority::new(credentials).with_issuers(issuers).with_host_names(host_names);
        ReloadableConfig { tls, authority, key_sources }
    }
}

fn tls_files(tls: &Tls) -> Result<TlsFiles, Failure> {
    let missing = |key: &str| {
        Failure::misuse(format_args!("`tls.{key}` is missing, TLS needs a certificate and its key"))
            .hint("`ferrybus cert dev` makes a pair for development")
    };
    let check_every = TLS_CHECK_INTERVAL.resolve(tls.check_interval.map(Amount::from), Profile::STANDARD)?;
    Ok(TlsFiles {
        certificate: tls.certificate.clone().ok_or_else(|| missing("certificate"))?,
        key: tls.key.clone().ok_or_else(|| missing("key"))?,
        client_authorities: tls.client_ca.clone(),
        check_every: Duration::from_millis(check_every.unwrap_or_default()),
    })
}
