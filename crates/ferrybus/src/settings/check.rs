//! Makes what the broker runs on out of what the operator wrote.
//!
//! Invariant: every value of [`Limits`] lies within its range, and every complaint names the key, the value and what
//! was expected.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
};

use broker_auth::split_authority;
use broker_core::{DEFAULT_NAMESPACE, Profile};
use broker_server::{EntityPlan, ReloadableConfig, ServerConfig};

use super::{
    Declarations, Namespaces, OnDifference, Reloadable, Settings,
    address_prefix::address_prefixes,
    bounds::queue,
    limit::{Amount, MAX_MEMORY, SHARDS},
    targets_first, topics,
};
use crate::{
    control_group::memory_limit,
    emulator::{self, Emulator},
    failure::Failure,
};

/// Checked configuration of the broker.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Configuration of the server, but for the part that a reload replaces.
    pub(crate) server: ServerConfig,
    /// Only this machine can reach its addresses.
    pub(crate) loopback: bool,
    pub(crate) reloadable: Reloadable,
    /// Entities of each namespace, the default one first.
    pub(crate) namespaces: Vec<DeclaredNamespace>,
    pub(crate) on_difference: OnDifference,
    /// Notices about settings without effect, logged at start.
    pub(crate) notices: Vec<String>,
}

impl Limits {
    /// The whole configuration of the server.
    pub(crate) fn into_config(self) -> ServerConfig {
        let ReloadableConfig {
            tls,
            authority,
            key_sources,
            default_namespace,
            namespaces,
            created_namespace,
            administrators,
        } = self.reloadable.into_config(plans(&self.namespaces));
        ServerConfig {
            tls,
            authority: Arc::new(authority),
            key_sources,
            default_namespace,
            namespaces,
            created_namespace,
            administrators: Arc::new(administrators),
            ..self.server
        }
    }

    /// Whether an emulator's `Config.json` is among the files.
    pub(crate) fn has_emulator(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.declared.has_emulator())
    }
}

/// The entities of the namespaces beside the default one.
pub(crate) fn plans(namespaces: &[DeclaredNamespace]) -> Vec<Vec<EntityPlan>> {
    namespaces.iter().skip(1).map(|namespace| namespace.plans.clone()).collect()
}

/// The entities of the files.
#[derive(Debug)]
pub(crate) struct Entities {
    /// Those of each namespace, the default one first.
    pub(crate) namespaces: Vec<DeclaredNamespace>,
    /// Notices about settings without effect.
    pub(crate) notices: Vec<String>,
}

/// The entities of one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredNamespace {
    pub(crate) name: String,
    /// Each behind those that it needs.
    pub(crate) plans: Vec<EntityPlan>,
    /// Their declarations.
    pub(crate) declared: Declarations,
}

impl Settings {
    /// The emulator's file, if one is named.
    pub(crate) fn emulator(&self) -> Result<Option<Emulator>, Failure> {
        self.emulator_config.as_deref().map(emulator::load).transpose()
    }

    /// Checks the entities alone.
    pub(crate) fn entities(&self) -> Result<Entities, Failure> {
        let emulator = self.emulator()?;
        let namespaces = Namespaces::new(self, emulator.as_ref())?;
        self.entities_of(&namespaces, emulator)
    }

    fn entities_of(&self, namespaces: &Namespaces, emulator: Option<Emulator>) -> Result<Entities, Failure> {
        let mut all: Vec<DeclaredNamespace> = namespaces
            .iter()
            .map(|(_, namespace)| DeclaredNamespace { name: namespace.name.clone(), ..Default::default() })
            .collect();
        for entry in &self.queue {
            let place = namespaces.of(&format_args!("queue `{}`", entry.name), entry.namespace.as_deref())?;
            if let Some(namespace) = all.get_mut(place.0) {
                let (name, settings) = queue(entry)?;
                namespace.plans.push(EntityPlan::queue(name, settings));
                namespace.declared.add_queue(self, entry);
            }
        }
        for entry in &self.topic {
            let place = namespaces.of(&format_args!("topic `{}`", entry.name), entry.namespace.as_deref())?;
            if let Some(namespace) = all.get_mut(place.0) {
                namespace.plans.extend(topics::plans(std::slice::from_ref(entry))?);
                namespace.declared.add_topic(self, entry);
            }
        }
        let mut notices = Vec::new();
        if let (Some(emulator), Some(path)) = (emulator, &self.emulator_config) {
            notices.extend(emulator.notices);
            for (place, of_emulator) in namespaces.of_emulator().iter().zip(emulator.namespaces) {
                let Some(namespace) = all.get_mut(place.0) else { continue };
                namespace.declared.add_emulator(path, &of_emulator);
                notices.extend(of_emulator.notices.iter().map(|notice| namespace.label(notice)));
                namespace.plans.extend(of_emulator.into_plans());
            }
            notices.extend(self.variables.notices.iter().cloned());
        }
        for namespace in &mut all {
            namespace.refuse_duplicates()?;
            namespace.plans = targets_first(std::mem::take(&mut namespace.plans));
        }
        Ok(Entities { namespaces: all, notices })
    }

    /// Checks everything. Reads the files that the settings name, and asks the system about its addresses.
    pub(crate) fn check(self) -> Result<Limits, Failure> {
        let (listen, listen_tls) = self.addresses(self.tls.is_some())?;
        let listen_http = self.http_addresses(&listen)?;
        let loopback =
            listen.iter().chain(&listen_tls).chain(&listen_http).all(|address| is_loopback(address.ip()));
        let emulator = self.emulator()?;
        let namespaces = Namespaces::new(&self, emulator.as_ref())?;
        let reloadable = Reloadable::new(&self, &namespaces, loopback)?;
        let usual = if emulator.is_some() { OnDifference::Apply } else { OnDifference::Keep };
        let Entities { namespaces, mut notices } = self.entities_of(&namespaces, emulator)?;
        notices.extend(self.removed().map(|key| {
            format!("`{key}` in the configuration has no effect: it is no setting any more (docs/renamed.md)")
        }));
        let mut server = ServerConfig {
            listen,
            listen_tls,
            listen_http,
            entities: namespaces.first().map(|default| default.plans.clone()).unwrap_or_default(),
            auto_create: self.auto_create.unwrap_or_default(),
            missing_right: self.missing_right.unwrap_or_default(),
            testing: self.testing.unwrap_or_default(),
            strict_hostnames: self.strict_hostnames.unwrap_or_default(),
            container_id: format!("ferrybus-{}", std::process::id()),
            ..ServerConfig::default()
        };
        server.address_prefixes = address_prefixes(&self.address_prefix)?;
        server.core.profile = self.profile.unwrap_or(Profile::STANDARD);
        server.journal.durability = self.durability.unwrap_or_default();
        self.limits.apply(&mut server)?;
        SHARDS.apply(self.shards.map(Amount::Number), &mut server)?;
        if !self.limits.has(&MAX_MEMORY) {
            server.memory.limit =
                memory_limit(Path::new(CONTROL_GROUPS), Path::new(OWN_GROUPS)).map(share_of_memory);
        }
        self.journal.apply(&mut server)?;
        self.observe(&mut server)?;
        server.data_dir = self.data_dir.unwrap_or_else(|| PathBuf::from("ferrybus-data"));
        let on_difference = self.on_difference.unwrap_or(usual);
        Ok(Limits { server, loopback, reloadable, namespaces, on_difference, notices })
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
                let mut hosts: Vec<SocketAddr> = Vec::new();
                for address in listen.iter().map(|address| SocketAddr::new(address.ip(), PORT_TLS)) {
                    if !hosts.contains(&address) {
                        hosts.push(address);
                    }
                }
                hosts
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

impl DeclaredNamespace {
    /// Names compare without regard to case.
    fn refuse_duplicates(&self) -> Result<(), Failure> {
        let mut names: Vec<_> = self.plans.iter().map(|plan| plan.name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair.first() == pair.last()).and_then(<[String]>::first);
        twice.map_or(Ok(()), |name| {
            Err(Failure::misuse(self.label(&format!("entity `{name}` is configured twice"))))
        })
    }

    fn is_default(&self) -> bool {
        self.name.eq_ignore_ascii_case(DEFAULT_NAMESPACE)
    }

    /// The text, with the name of the namespace in front unless it is the default one.
    pub(crate) fn label(&self, text: &str) -> String {
        if self.is_default() { text.to_owned() } else { format!("namespace `{}`: {text}", self.name) }
    }

    /// The option of a client command that is about this namespace; nothing for the default one.
    pub(crate) fn option(&self) -> String {
        if self.is_default() { String::new() } else { format!(" --namespace {}", self.name) }
    }
}

/// The broker's share of a memory limit; the rest is for the system and for memory that is not counted.
const fn share_of_memory(limit: u64) -> u64 {
    limit / 5 * 4
}

const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
const OWN_GROUPS: &str = "/proc/self/cgroup";
const PORT: u16 = 5672;
const PORT_TLS: u16 = 5671;
const PORT_HTTP: u16 = 5300;

#[cfg(test)]
mod tests;
