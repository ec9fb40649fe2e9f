//! Broker whose journal has been read and that accepts no connections yet, so that entities can be compared and
//! changed.
//!
//! Invariant: its ports are taken, so that no other process gets them, and refuse every connection until
//! [`Prepared::listen`]: what can be connected to is ready.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use broker_core::{
    Command, DEFAULT_NAMESPACE, Effect, EntityError, EntityPath, EntityQuery, EntityReport, EntitySettings,
    NamespaceSettings, Rule, SubQueue, Ticket,
};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

use crate::{
    accept::{self, PortKind},
    config::{EntityPlan, NamespacePlan, ServerConfig},
    namespaces::setup::SetupClient,
    server::Server,
    shared::Shared,
    start_error::StartError,
};

/// A server that does not listen yet. Dropped, it ends like a server.
pub struct Prepared {
    server: Server,
    shared: Arc<Shared>,
    ports: Ports,
    /// Client of the namespace that the requests of this start are about.
    setup: SetupClient,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// A change of an entity that exists.
#[derive(Clone, Debug)]
pub enum EntityChange {
    /// Give the entity of this name these properties.
    Settings {
        entity: String,
        /// All of its properties.
        settings: Box<EntitySettings>,
    },
    /// Give the subscription this rule, which it does not have.
    AddRule { entity: String, rule: Rule },
    /// Replace the rule of the same name.
    ReplaceRule { entity: String, rule: Rule },
    /// Remove the rule of this name.
    RemoveRule { entity: String, rule: String },
}

impl Prepared {
    pub(crate) fn new(server: Server, shared: Arc<Shared>, ports: Ports) -> Self {
        let setup = SetupClient::of(&shared.namespaces.of_default(), &shared.next_client);
        Self { server, shared, ports, setup }
    }

    /// Creates the namespaces of the configuration that do not exist, and gives the others their settings. The default one keeps
    /// its own where the configuration says nothing about it.
    pub(crate) fn put_namespaces(
        &mut self,
        default: Option<&NamespaceSettings>,
        plans: &[NamespacePlan],
    ) -> Result<(), StartError> {
        let Self { server, shared, .. } = self;
        let setup = shared.namespace_setup();
        let default = default.map(|settings| (DEFAULT_NAMESPACE, settings));
        let others = plans.iter().map(|plan| (&*plan.name, &plan.settings));
        let wanted: Vec<_> = default.into_iter().chain(others).collect();
        let answers = server.unless_node_ends(setup.put(&wanted))??;
        answers.into_iter().try_for_each(|answer| answer.map(drop))
    }

    /// From now on the requests are about the entities of this namespace. At first they are about those of the default one.
    pub fn select_namespace(&mut self, name: &str) -> Result<(), StartError> {
        let namespaces = &self.shared.namespaces;
        let served = namespaces.named(name).ok_or_else(|| StartError::NamespaceMissing(name.to_owned()))?;
        self.setup = SetupClient::of(&served, &self.shared.next_client);
        Ok(())
    }

    /// Every entity that there is, in the order of their names.
    pub fn entities(&mut self) -> Result<Vec<EntityReport>, StartError> {
        let mut all: Vec<EntityReport> = Vec::new();
        loop {
            let after = all.last().map_or(Box::default(), |last| last.name.to_ascii_lowercase().into());
            let query = EntityQuery::All { after, top: PAGE };
            let page = match self.ask_one(|ticket| Command::Describe { query, ticket })? {
                Effect::Described { entities, .. } => entities,
                _ => Vec::new(),
            };
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// The rules of a subscription, in the order of their names.
    pub fn rules(&mut self, subscription: &str) -> Result<Vec<Rule>, StartError> {
        let path = path(subscription);
        let answer = self.ask_one(|ticket| Command::ListRules { path, skip: 0, top: u64::MAX, ticket })?;
        let rules = match answer {
            Effect::Rules { rules, .. } => rules,
            Effect::RequestRefused { error, .. } => return Err(refused(subscription, error)),
            _ => Vec::new(),
        };
        Ok(rules.into_iter().map(|stored| stored.rule).collect())
    }

    /// Creates those of these entities that do not exist, in this order.
    pub fn create(&mut self, plans: &[EntityPlan]) -> Result<(), StartError> {
        let Self { server, setup, .. } = self;
        server.unless_node_ends(setup.create(plans))?
    }

    /// Makes these changes in this order. The first that is refused is the error; what comes before and behind it is
    /// made.
    pub fn change(&mut self, changes: Vec<EntityChange>) -> Result<(), StartError> {
        let names: Vec<String> = changes.iter().map(|change| change.entity().to_owned()).collect();
        let commands =
            changes.into_iter().zip(0..).map(|(change, ticket)| change.command(Ticket(ticket))).collect();
        for (answer, name) in self.ask(commands)?.into_iter().zip(names) {
            if let Effect::RequestRefused { error, .. } = answer {
                return Err(refused(&name, error));
            }
        }
        Ok(())
    }

    /// Lets clients connect.
    pub fn listen(self) -> Result<Server, StartError> {
        let Self { server, shared, ports, setup } = self;
        drop(setup);
        if let Some(watch) = shared.memory.watch(shared.shards.clone()).map_err(StartError::Memory)? {
            server.spawn(watch.run());
        }
        // All of them listen, or none accepts.
        let listeners: Vec<_> = {
            let _context = server.enter();
            ports.0.into_iter().map(Port::listen).collect::<Result<_, _>>()?
        };
        for (listener, kind) in listeners {
            server.spawn(accept::accept_loop(listener, Arc::clone(&shared), kind));
        }
        Ok(server)
    }

    fn ask_one(&mut self, command: impl FnOnce(Ticket) -> Command) -> Result<Effect, StartError> {
        self.ask(vec![command(Ticket(0))])?.pop().ok_or(StartError::Journal)
    }

    /// Has the core do these, whose tickets count from 0; gives the answer of each, once it is durable.
    fn ask(&mut self, commands: Vec<Command>) -> Result<Vec<Effect>, StartError> {
        let Self { server, setup, .. } = self;
        server.unless_node_ends(setup.ask(commands))?
    }
}

impl EntityChange {
    /// The entity that it is about.
    fn entity(&self) -> &str {
        match self {
            Self::Settings { entity, .. }
            | Self::AddRule { entity, .. }
            | Self::ReplaceRule { entity, .. }
            | Self::RemoveRule { entity, .. } => entity,
        }
    }

    fn command(self, ticket: Ticket) -> Command {
        match self {
            Self::Settings { entity, settings } => {
                Command::UpdateEntity { name: entity.into(), settings, expected: None, ticket }
            }
            Self::AddRule { entity, rule } => {
                Command::AddRule { path: path(&entity), rule: Box::new(rule), ticket }
            }
            Self::ReplaceRule { entity, rule } => {
                Command::UpdateRule { path: path(&entity), rule: Box::new(rule), expected: None, ticket }
            }
            Self::RemoveRule { entity, rule } => {
                Command::RemoveRule { path: path(&entity), name: rule.into(), expected: None, ticket }
            }
        }
    }
}

fn path(entity: &str) -> EntityPath {
    EntityPath { entity: entity.into(), sub_queue: SubQueue::Main }
}

fn refused(name: &str, error: EntityError) -> StartError {
    StartError::Entity { name: name.to_owned(), error }
}

/// The ports of a server.
#[derive(Debug)]
pub(crate) struct Ports(Vec<Port>);

/// A port that is bound: no other process can listen there, and the system refuses connections to it.
#[derive(Debug)]
struct Port {
    socket: TcpSocket,
    /// With the port that the system chose.
    address: SocketAddr,
    kind: PortKind,
}

impl Ports {
    /// Takes the ports of all addresses.
    pub(crate) fn take(config: &ServerConfig) -> Result<Self, StartError> {
        let doors = [
            (&config.listen, PortKind::Any),
            (&config.listen_http, PortKind::Watched),
            (&config.listen_tls, PortKind::Tls),
        ];
        let ports = doors.into_iter().flat_map(|(addresses, kind)| {
            addresses.iter().map(move |&address| {
                Port::take(address, kind, config.tcp_max_segment)
                    .map_err(|source| StartError::Listen { address, source })
            })
        });
        ports.collect::<Result<_, _>>().map(Self)
    }

    /// The addresses that are for this.
    pub(crate) fn addresses(&self, kind: PortKind) -> Vec<SocketAddr> {
        self.0.iter().filter(|port| port.kind == kind).map(|port| port.address).collect()
    }
}

impl Port {
    fn take(address: SocketAddr, kind: PortKind, segment_bytes: Option<u16>) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Connections of the process before this one may still be ending there.
        socket.set_reuseaddr(true)?;
        if let Some(bytes) = segment_bytes {
            // Connections that are accepted have it from here; on them it has no effect.
            SockRef::from(&socket).set_tcp_mss(bytes.into())?;
        }
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, kind })
    }

    fn listen(self) -> Result<(TcpListener, PortKind), StartError> {
        let Self { socket, address, kind } = self;
        match socket.listen(BACKLOG) {
            Ok(listener) => Ok((listener, kind)),
            Err(source) => Err(StartError::Listen { address, source }),
        }
    }
}

/// Connections that wait to be accepted; Linux cuts it to `net.core.somaxconn`.
const BACKLOG: u32 = 1_024;
/// Entities in one answer of the core.
const PAGE: u64 = 500;

#[cfg(test)]
mod tests;
