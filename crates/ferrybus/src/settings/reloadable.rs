//! The part of the settings that a running broker replaces: its certificate, its namespaces, and the rights of its clients.
//!
//! Invariant: a start and a reload make it in the same way.

use std::{sync::Arc, time::Duration};

use broker_auth::{Authority, Credentials, HostNames};
use broker_core::{NamespaceSettings, Profile};
use broker_server::{EntityPlan, NamespacePlan, ReloadableConfig, TlsFiles};

use super::{
    Namespaces, Settings, Tls,
    credentials::{AllCredentials, credentials},
    issuers::{Issuers, issuers},
    limit::{Amount, TLS_CHECK_INTERVAL},
};
use crate::failure::Failure;

/// The state that a reload replaces.
#[derive(Debug)]
pub(crate) struct Reloadable {
    pub(crate) tls: Option<TlsFiles>,
    /// Names of the broker that the operator has given.
    pub(crate) host_names: Vec<String>,
    /// The credentials are the built-in ones.
    pub(crate) development: bool,
    pub(crate) default_namespace: NamespaceAccess,
    /// The others, in the order in which they are declared.
    pub(crate) namespaces: Vec<NamespaceAccess>,
    pub(crate) created_namespace: Credentials,
    pub(crate) administrators: Credentials,
}

/// A namespace, and the credentials that the configuration gives it.
#[derive(Debug)]
pub(crate) struct NamespaceAccess {
    pub(crate) name: String,
    /// A file names it, and so says its settings.
    pub(crate) is_named: bool,
    pub(crate) settings: NamespaceSettings,
    pub(crate) credentials: Credentials,
    pub(crate) issuers: Issuers,
}

impl Reloadable {
    /// Checks these settings, for a broker that only its own machine can reach if `loopback` says so. Reads the files that the settings
    /// name, except those of TLS.
    pub(crate) fn new(settings: &Settings, namespaces: &Namespaces, loopback: bool) -> Result<Self, Failure> {
        let all = credentials(settings, namespaces, loopback)?;
        let AllCredentials { created_namespace, administrators, development, .. } = all;
        let issuers = issuers(&settings.issuer, namespaces)?;
        let tls = settings.tls.as_ref().map(tls_files).transpose()?;
        let host_names = settings.host_names()?;
        let parts = namespaces.iter().zip(all.namespaces).zip(issuers);
        let mut namespaces = parts.map(|(((_, namespace), credentials), issuers)| NamespaceAccess {
            name: namespace.name.clone(),
            is_named: namespace.is_named,
            settings: namespace.settings.clone(),
            credentials,
            issuers,
        });
        let default_namespace = namespaces.next().expect("the default namespace is always the first");
        let namespaces = namespaces.collect();
        Ok(Self {
            tls,
            host_names,
            development,
            default_namespace,
            namespaces,
            created_namespace,
            administrators,
        })
    }

    /// In the words of the server; `entities` has those of each namespace beside the default one, in their order.
    pub(crate) fn into_config(self, entities: Vec<Vec<EntityPlan>>) -> ReloadableConfig {
        let Self {
            tls,
            host_names,
            default_namespace,
            namespaces,
            created_namespace,
            administrators,
            development: _,
        } = self;
        let names = |settings: &NamespaceSettings| -> HostNames {
            let own = settings.hostnames.iter().map(ToString::to_string);
            host_names.iter().cloned().chain(own).collect()
        };
        let authority = |credentials, issuers, names| {
            Authority::new(credentials).with_issuers(issuers).with_host_names(names)
        };
        let plan = |(namespace, entities): (NamespaceAccess, Vec<EntityPlan>)| {
            let NamespaceAccess { name, is_named: _, settings, credentials, issuers } = namespace;
            let Issuers { issuers, key_sources } = issuers;
            let authority = Arc::new(authority(credentials, issuers, names(&settings)));
            NamespacePlan { name, settings, authority, key_sources, entities }
        };
        let NamespaceAccess { settings, is_named, credentials, issuers, name: _ } = default_namespace;
        ReloadableConfig {
            tls,
            authority: authority(credentials, issuers.issuers, names(&settings)),
            key_sources: issuers.key_sources,
            namespaces: namespaces.into_iter().zip(entities).map(plan).collect(),
            administrators: authority(administrators, Vec::new(), names(&settings)),
            default_namespace: is_named.then_some(settings),
            created_namespace,
        }
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
