//! Makes what the broker runs on out of what the operator wrote.
//!
//! Invariant: every value of [`Limits`] lies within its range, and every complaint names the key, the value and what
//! was expected.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs},
    path::PathBuf,
    sync::Arc,
};

use broker_auth::split_authority;
use broker_core::{EntitySettings, Profile};
use broker_server::{EntityPlan, ReloadableConfig, ServerConfig};

use super::{Declarations, OnDifference, Reloadable, Settings, bounds::queue, targets_first, topics};
use crate::{emulator, failure::Failure};

/// Checked configuration of the broker.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Configuration of the server, but for the part that a reload replaces.
    pub(crate) server: ServerConfig,
    /// Only this machine can reach its addresses.
    pub(crate) loopback: bool,
    pub(crate) reloadable: Reloadable,
    /// Declarations of the entities.
    pub(crate) declared: Declarations,
    pub(crate) on_difference: OnDifference,
    /// Notices about settings without effect, logged at start.
    pub(crate) notices: Vec<String>,
}

impl Limits {
    /// The whole configuration of the server.
    pub(crate) fn into_config(self) -> ServerConfig {
        let ReloadableConfig { tls, authority, key_sources } = self.reloadable.into_config();
        ServerConfig { tls, authority: Arc::new(authority), key_sources, ..self.server }
    }
}

/// The entities of a file.
#[derive(Debug, Default)]
pub(crate) struct Entities {
    pub(crate) queues: Vec<(String, EntitySettings)>,
    /// Topics, each before its subscriptions.
    pub(crate) topics: Vec<EntityPlan>,
    /// Their declarations.
    pub(crate) declared: Declarations,
    /// Notices about settings without effect.
    pub(crate) notices: Vec<String>,
}

impl Settings {
    /// Checks the entities alone.
    pub(crate) fn entities(&self) -> Result<Entities, Failure> {
        let mut queues: Vec<_> = self.queue.iter().map(queue).collect::<Result<_, _>>()?;
        let mut topics = topics::plans(&self.topic)?;
        let mut declared = Declarations::of_settings(self);
        let mut notices = Vec::new();
        if let Some(path) = &self.emulator_config {
            let emulator = emulator::load(path)?;
            declared.add_emulator(path, &emulator);
            queues.extend(emulator.queues);
            topics.extend(emulator.topics);
            notices.extend(emulator.notices);
            notices.extend(self.variables.notices.iter().cloned());
        }
        refuse_duplicates(&queues, &topics)?;
        Ok(Entities { queues, topics, declared, notices })
    }

    /// Checks everything. Reads the files that the settings name, and asks the system about its addresses.
    pub(crate) fn check(self) -> Result<Limits, Failure> {
        let (listen, listen_tls) = self.addresses(self.tls.is_some())?;
        let listen_http = self.http_addresses(&listen)?;
        let loopback =
            listen.iter().chain(&listen_tls).chain(&listen_http).all(|address| is_loopback(address.ip()));
        let reloadable = Reloadable::new(&self, loopback)?;
        let Entities { queues, topics, declared, mut notices } = self.entities()?;
        let usual = if declared.has_emulator() { OnDifference::Apply } else { OnDifference::Keep };
        notices.extend(self.removed().map(|key| {
            format!("`{key}` in the configuration has no effect: it is no setting any more (docs/renamed.md)")
        }));
        let queues = queues.into_iter().map(|(name, settings)| EntityPlan::queue(name, settings));
        let mut server = ServerConfig {
            listen,
            listen_tls,
            listen_http,
            entities: targets_first(queues.chain(topics).collect()),
            auto_create: self.auto_create.unwrap_or_default(),
            missing_right: self.missing_right.unwrap_or_default(),
            testing: self.testing.unwrap_or_default(),
            container_id: format!("ferrybus-{}", std::process::id()),
            ..ServerConfig::default()
        };
        server.core.profile = self.profile.unwrap_or(Profile::STANDARD);
        server.journal.durability = self.durability.unwrap_or_default();
        self.limits.apply(&mut server)?;
        self.journal.apply(&mut server)?;
        self.observe(&mut server)?;
        server.data_dir = self.data_dir.unwrap_or_else(|| PathBuf::from("ferrybus-data"));
        let on_difference = self.on_difference.unwrap_or(usual);
        Ok(Limits { server, loopback, reloadable, declared, on_difference, notices })
    }

    /// The names in `hostnames` and those of addresses to listen on.
    pub(super) fn host_names(&self) -> Result<Vec<String>, Failure> {
        for name in &self.hostnames {
            let bare = name.strip_prefix("*.").unwrap_or(name);
            if !matches!(split_authority(bare), Some((_, None))) {
                return Err(Failure::misuse(format_args!(
                    "`hostnames` has `{name}`, expected the name of a host"
                ))
                .hint(
                    "a name has no scheme, port or path, such as `broker.example.org` or `*.example.org`",
                ));
            }
        }
        let listened = [&self.listen, &self.listen_tls, &self.listen_http].into_iter().flatten().flatten();
        let listened = listened.filter_map(|text| split_authority(text)).map(|(name, _)| name.to_owned());
        Ok(self.hostnames.iter().cloned().chain(listened).collect())
    }

    /// Addresses for HTTP, besides these for AMQP.
    pub(super) fn http_addresses(&self, listen: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
        let mut http = match &self.listen_http {
            Some(texts) => resolve_all(texts, PORT_HTTP)?,
            None => default_http(listen),
        };
        if let Some(port) = self.variables.http_port {
            let usual = http.iter_mut().filter(|address| address.port() == PORT_HTTP);
            usual.for_each(|address| address.set_port(port));
        }
        Ok(http)
    }

    /// Addresses to listen on. Default: loopback, the IPv6 one too if the machine has it.
    pub(super) fn addresses(&self, tls: bool) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>), Failure> {
        let listen = match &self.listen {
            Some(texts) => resolve_all(texts, PORT)?,
            None => loopback_addresses().into_iter().map(|ip| SocketAddr::new(ip, PORT)).collect(),
        };
        let listen_tls = match &self.listen_tls {
            Some(texts) => resolve_all(texts, PORT_TLS)?,
            None if tls => {
                let mut hosts: Vec<IpAddr> = listen.iter().map(SocketAddr::ip).collect();
                hosts.dedup();
                hosts.into_iter().map(|ip| SocketAddr::new(ip, PORT_TLS)).collect()
            }
            None => Vec::new(),
        };
        if !listen_tls.is_empty() && !tls {
            return Err(Failure::misuse("`listen_tls` is set, but there is no certificate").hint(
                "set `tls.certificate` and `tls.key`; `ferrybus cert dev` makes a pair for development",
            ));
        }
        if listen.is_empty() && listen_tls.is_empty() {
            return Err(Failure::misuse(
                "there is no address to listen on, expected at least one in `listen`",
            ));
        }
        Ok((listen, listen_tls))
    }
}

/// Beside the usual port for AMQP there is the usual one for HTTP. A broker on another port is one of several on its
/// machine, and each port for AMQP speaks HTTP too.
fn default_http(listen: &[SocketAddr]) -> Vec<SocketAddr> {
    let usual = listen.iter().filter(|address| address.port() == PORT);
    usual.map(|address| SocketAddr::new(address.ip(), PORT_HTTP)).collect()
}

/// True if only this machine can reach the address.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn loopback_addresses() -> Vec<IpAddr> {
    let (v4, v6): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [0_u16, 0, 0, 0, 0, 0, 0, 1].into());
    // Many containers have no IPv6 loopback: ask with a port of the system's choice.
    if TcpListener::bind((v6, 0)).is_ok() { vec![v4, v6] } else { vec![v4] }
}

fn resolve_all(texts: &[String], port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let mut all = Vec::new();
    for text in texts {
        for address in resolve(text, port)? {
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    Ok(all)
}

/// `127.0.0.1:5672`, `[::1]`, `::1`, `localhost`, `:5672` (every IPv4 address of the machine).
fn resolve(text: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let bad = |reason: &dyn std::fmt::Display| {
        Failure::misuse(format_args!("cannot listen on `{text}`: {reason}"))
            .hint("expected `address:port`, `address` or `:port`, such as `127.0.0.1:5672`")
    };
    if let Some(port) = text.strip_prefix(':').filter(|rest| !rest.contains(':')) {
        let port = port.parse().map_err(|error| bad(&error))?;
        return Ok(vec![SocketAddr::from(([0, 0, 0, 0], port))]);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = if text.contains(':') { text.to_socket_addrs() } else { (text, port).to_socket_addrs() };
    found.map(Iterator::collect).map_err(|error| bad(&error))
}

/// Names compare without regard to case.
fn refuse_duplicates(queues: &[(String, EntitySettings)], topics: &[EntityPlan]) -> Result<(), Failure> {
    let topics = topics.iter().map(|plan| &plan.name);
    let mut names: Vec<_> =
        queues.iter().map(|(name, _)| name).chain(topics).map(|name| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some(pair) => Err(Failure::misuse(format_args!(
            "entity `{}` is configured twice",
            pair.first().map_or("", |n| n)
        ))),
        None => Ok(()),
    }
}

const PORT: u16 = 5672;
const PORT_TLS: u16 = 5671;
const PORT_HTTP: u16 = 5300;

#[cfg(test)]
mod tests;
