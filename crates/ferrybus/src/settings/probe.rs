//! Address of a running broker for health probes on its own machine.
//!
//! Invariant: no credential is read: a probe needs none.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use super::Settings;
use crate::{emulator::Variables, failure::Failure};

/// An address to ask, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ProbeAddress {
    /// `localhost` where the broker listens on every address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// The file that is read: the named one, that of `$FERRYBUS_CONFIG`, or `ferrybus.toml` where it is.
pub(crate) fn configuration_file(named: Option<&Path>) -> Option<PathBuf> {
    let from_environment =
        || std::env::var_os("FERRYBUS_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let here = || Some(PathBuf::from("ferrybus.toml")).filter(|path| path.exists());
    named.map(Path::to_owned).or_else(from_environment).or_else(here)
}

/// Probe address of the broker that this file configures; `None` where there is no file.
pub(crate) fn probe_address(named: Option<&Path>) -> Result<Option<ProbeAddress>, Failure> {
    let Some(path) = configuration_file(named) else { return Ok(None) };
    let mut settings = Settings::load(&path)?;
    settings.variables = Variables::read(|name| std::env::var(name).ok())?;
    address_of(&settings).map(Some)
}

/// The first address for HTTP, else for AMQP, which speaks HTTP too, else with TLS only. A port that the system is to
/// choose cannot be known.
fn address_of(settings: &Settings) -> Result<ProbeAddress, Failure> {
    let (listen, listen_tls) = settings.addresses(settings.tls.is_some())?;
    let http = settings.http_addresses(&listen)?;
    let known = |addresses: Vec<SocketAddr>, tls: bool| {
        addresses.into_iter().find(|address| address.port() != 0).map(|address| (address, tls))
    };
    let found = known(http, false).or_else(|| known(listen, false)).or_else(|| known(listen_tls, true));
    let (address, tls) = found.ok_or_else(|| {
        Failure::misuse("the configuration has no port that can be asked")
            .hint("`--server HOST:PORT` names one")
    })?;
    Ok(ProbeAddress { host: local_host(address.ip()), port: address.port(), tls })
}

/// Address for connecting to a listener at this address.
fn local_host(listened: IpAddr) -> String {
    if listened.is_unspecified() { "localhost".to_owned() } else { listened.to_string() }
}

#[cfg(test)]
mod tests;
