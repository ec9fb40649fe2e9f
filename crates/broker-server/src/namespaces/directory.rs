//! All namespaces of the broker, found by name and by host name.
//!
//! Invariant: it has what the shards have made durable, and nothing else. A namespace keeps its identity here as long as it
//! exists: connections hold it.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use amqp_gateway::{CloseReason, GatewayConfig};
use broker_auth::{Authority, Credentials, ForeignHost};
use broker_core::{
    AuthorizationRule, DEFAULT_NAMESPACE, NamespaceDefinition, NamespaceSettings, NamespaceState,
    namespace_key,
};
use broker_node::NamespaceId;
use tokio::sync::watch;
use tracing::{info, warn};

use super::ServedNamespace;
use crate::{
    executor::Executor,
    host_table::{HostLookup, HostTable, NameConflict},
    in_flight_limit::InFlightLimit,
    ingress_credit::IngressCredit,
    namespace_names::{HostName, NamespaceName},
    shards::Shards,
};

/// The namespaces, and what the configuration says of them.
pub(crate) struct NamespaceDirectory {
    table: Arc<RwLock<Table>>,
    configured: Mutex<Configured>,
    /// Configuration of the gateways, the same in all namespaces.
    gateway: Arc<GatewayConfig>,
    /// Account of the commands of all connections.
    in_flight_limit: Arc<InFlightLimit>,
    /// The account of connections whose namespace is not known yet.
    unplaced: Arc<IngressCredit>,
    /// Sent when a key was taken back, or permits less.
    lost_keys: watch::Sender<()>,
    /// Sent when connections of a namespace have to leave it.
    left: watch::Sender<()>,
    creation: tokio::sync::Mutex<()>,
    /// Held while the names of the broker are told to a namespace, so that older ones do not come last.
    sharing: Mutex<()>,
}

struct Table {
    hosts: HostTable<Arc<ServedNamespace>>,
    by_id: BTreeMap<Residence, Arc<ServedNamespace>>,
    /// By their names in lower case; a namespace keeps its name until it is gone.
    by_name: BTreeMap<Box<str>, Arc<ServedNamespace>>,
}

/// Shard of a namespace, and its id there.
type Residence = (u16, NamespaceId);

/// Credentials of the configuration.
struct Configured {
    /// Of the namespaces that it names, by their keys.
    authorities: BTreeMap<Box<str>, Arc<Authority>>,
    /// Of namespaces that interfaces create.
    created: Credentials,
}

/// The namespace that a client or a request means.
#[derive(Clone, Debug)]
pub(crate) enum Meant {
    /// It was named.
    Named(Arc<ServedNamespace>),
    /// None was named.
    Default(Arc<ServedNamespace>),
    /// One was named that there is not.
    Unknown(Box<str>),
}

impl Meant {
    /// The namespace, if there is one.
    pub(crate) fn found(self) -> Option<Arc<ServedNamespace>> {
        match self {
            Self::Named(namespace) | Self::Default(namespace) => Some(namespace),
            Self::Unknown(_) => None,
        }
    }
}

/// Settings of a directory.
pub(crate) struct DirectoryConfig {
    pub(crate) gateway: Arc<GatewayConfig>,
    pub(crate) in_flight_limit: Arc<InFlightLimit>,
    pub(crate) lost_keys: watch::Sender<()>,
    /// Credentials that the configuration gives the default namespace, and others by name.
    pub(crate) default_authority: Arc<Authority>,
    pub(crate) authorities: BTreeMap<Box<str>, Arc<Authority>>,
    pub(crate) created: Credentials,
    /// Close connections whose host name leads nowhere.
    pub(crate) strict: bool,
}

impl NamespaceDirectory {
    /// With the default namespace, which lives in the shard of `executor`.
    pub(crate) fn new(config: DirectoryConfig, executor: Arc<Executor>) -> Self {
        let DirectoryConfig {
            gateway,
            in_flight_limit,
            lost_keys,
            default_authority,
            authorities,
            created,
            strict,
        } = config;
        // The shard tells its own definition later.
        let served = Arc::new(ServedNamespace::new(
            NamespaceDefinition::of_default(),
            executor,
            default_authority,
            &gateway,
            Arc::clone(&in_flight_limit),
        ));
        served.take_keys();
        let name = NamespaceName::parse(DEFAULT_NAMESPACE).expect("the constant is a name");
        let hosts = HostTable::new(name, [], Arc::clone(&served), strict);
        let directory = Self {
            table: Arc::new(RwLock::new(Table {
                hosts,
                by_id: BTreeMap::from([(served.residence(), Arc::clone(&served))]),
                by_name: BTreeMap::from([(DEFAULT_NAMESPACE.into(), Arc::clone(&served))]),
            })),
            configured: Mutex::new(Configured { authorities, created }),
            gateway,
            unplaced: Arc::new(IngressCredit::without_namespace(Arc::clone(&in_flight_limit))),
            in_flight_limit,
            lost_keys,
            left: watch::Sender::new(()),
            creation: tokio::sync::Mutex::new(()),
            sharing: Mutex::new(()),
        };
        directory.list_again((0, NamespaceId::DEFAULT));
        judge_token_hosts(&directory.table, &served);
        directory
    }

    /// Follows the moments at which connections have to leave their namespace.
    pub(crate) fn watch_left(&self) -> watch::Receiver<()> {
        self.left.subscribe()
    }

    /// The account of connections whose namespace is not known yet.
    pub(crate) fn unplaced(&self) -> Arc<IngressCredit> {
        Arc::clone(&self.unplaced)
    }

    /// The default namespace.
    pub(crate) fn of_default(&self) -> Arc<ServedNamespace> {
        match self.lookup(None) {
            Meant::Named(namespace) | Meant::Default(namespace) => namespace,
            Meant::Unknown(_) => unreachable!("no sign leads to the default namespace"),
        }
    }

    /// The namespace that a host name leads to.
    pub(crate) fn lookup(&self, hostname: Option<&str>) -> Meant {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        match table.hosts.lookup(hostname) {
            HostLookup::Found(namespace) => Meant::Named(Arc::clone(namespace)),
            HostLookup::Default(namespace) => Meant::Default(Arc::clone(namespace)),
            HostLookup::Unknown(hostname) => Meant::Unknown(hostname),
        }
    }

    /// Whether there is no namespace but the default one.
    pub(crate) fn is_single(&self) -> bool {
        self.table.read().unwrap_or_else(PoisonError::into_inner).by_id.len() == 1
    }

    /// The namespace with this name.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<ServedNamespace>> {
        let name = NamespaceName::parse(name).ok()?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.hosts.named(&name).map(Arc::clone)
    }

    /// The namespace that has this name, also while it is being deleted: until it is gone, its shard gives the name to no other.
    pub(crate) fn holding(&self, name: &str) -> Option<Arc<ServedNamespace>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_name.get(&*name.to_ascii_lowercase()).map(Arc::clone)
    }

    /// The namespace with this id.
    fn get(&self, id: Residence) -> Option<Arc<ServedNamespace>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).map(Arc::clone)
    }

    /// Names are given while this is held, for a name is unique among all shards.
    pub(crate) async fn creation(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.creation.lock().await
    }

    /// The loads of the shards. With one shard it looks at no namespace.
    pub(crate) fn loads(&self, shards: &Shards) -> ShardLoads {
        let mut loads: Vec<_> = shards.all().iter().map(|executor| ((0, 0), Arc::clone(executor))).collect();
        if loads.len() > 1 {
            for served in self.table.read().unwrap_or_else(PoisonError::into_inner).by_id.values() {
                if let Some(((connections, namespaces), _)) =
                    loads.get_mut(usize::from(served.executor.shard()))
                {
                    *connections += served.connections();
                    *namespaces += 1;
                }
            }
        }
        ShardLoads { loads, first: Arc::clone(shards.first()) }
    }

    /// All namespaces, by name.
    pub(crate) fn all(&self) -> Vec<Arc<ServedNamespace>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_name.values().map(Arc::clone).collect()
    }

    /// At most `top` namespaces whose names in lower case come after this one, in their order, and whether there are more. It looks at
    /// no other.
    pub(crate) fn page(&self, after: &str, top: usize) -> (Vec<Arc<ServedNamespace>>, bool) {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let from = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
        let mut rest = table.by_name.range::<str, _>((from, Bound::Unbounded)).map(|(_, served)| served);
        let page = rest.by_ref().take(top).map(Arc::clone).collect();
        (page, rest.next().is_some())
    }

    /// Whether a namespace of this name may have these host names.
    pub(crate) fn check_hostnames(&self, name: &str, hostnames: &[Box<str>]) -> Result<(), NameConflict> {
        // Another check refuses names that are none.
        let Ok(name) = NamespaceName::parse(name) else { return Ok(()) };
        let hosts: Vec<HostName> = hostnames.iter().filter_map(|host| HostName::parse(host).ok()).collect();
        self.table.read().unwrap_or_else(PoisonError::into_inner).hosts.check(&name, &hosts)
    }

    /// A definition has become durable in the shard of `executor`. The namespace, where it is new here.
    pub(crate) fn apply(
        &self,
        definition: NamespaceDefinition,
        executor: &Arc<Executor>,
    ) -> Option<Arc<ServedNamespace>> {
        let id = (executor.shard(), NamespaceId::of(&definition));
        let Some(served) = self.get(id) else {
            return (definition.state != NamespaceState::Deleted).then(|| self.add(definition, executor));
        };
        let (was_open, is_gone) = (served.is_open(), definition.state != NamespaceState::Active);
        if served.apply(definition) {
            self.lost_keys.send_replace(());
        }
        if is_gone {
            self.remove(&served);
        } else {
            self.list_again(id);
        }
        if was_open && !served.is_open() {
            self.left.send_replace(());
        }
        None
    }

    fn add(&self, definition: NamespaceDefinition, executor: &Arc<Executor>) -> Arc<ServedNamespace> {
        let authority = self.authority_of(&definition.name);
        let served = Arc::new(ServedNamespace::new(
            definition,
            Arc::clone(executor),
            authority,
            &self.gateway,
            Arc::clone(&self.in_flight_limit),
        ));
        served.take_keys();
        judge_token_hosts(&self.table, &served);
        let name = &*served.name;
        info!(namespace = name, "a namespace is served");
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.by_id.insert(served.residence(), Arc::clone(&served));
        table.by_name.insert(served.name.to_ascii_lowercase().into(), Arc::clone(&served));
        drop(table);
        // Only now: names that change meanwhile are told to namespaces in the table.
        self.share_names_with(&served);
        if served.definition().state == NamespaceState::Active {
            self.list_again(served.residence());
        }
        served
    }

    /// The names of the broker have changed, in its configuration or certificate: all namespaces know them from now on.
    pub(crate) fn share_names(&self) {
        self.all().iter().for_each(|served| self.share_names_with(served));
    }

    fn share_names_with(&self, served: &ServedNamespace) {
        let of_broker = self.of_default();
        if served.residence() != of_broker.residence() {
            let _alone = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
            served.authority.set_certified_names(of_broker.authority.names_of_broker());
        }
    }

    /// Lists the names of a namespace, as its definition has them now.
    fn list_again(&self, id: Residence) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let Some(served) = table.by_id.get(&id).map(Arc::clone) else { return };
        let Ok(name) = NamespaceName::parse(&served.name) else { return };
        let definition = served.definition();
        let hosts = definition.settings.hostnames.iter();
        let hosts: Vec<HostName> = hosts.filter_map(|host| HostName::parse(host).ok()).collect();
        if let Err(conflict) = table.hosts.replace(&name, hosts, served) {
            warn_of(&conflict);
        }
    }

    /// The namespace is no longer found by its name, which may be given anew once it is gone from its shard.
    fn remove(&self, served: &Arc<ServedNamespace>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(name) = NamespaceName::parse(&served.name)
            && table.hosts.named(&name).is_some_and(|listed| Arc::ptr_eq(listed, served))
        {
            table.hosts.remove(&name);
        }
        if served.definition().state == NamespaceState::Deleted {
            table.by_id.remove(&served.residence());
            let key = served.name.to_ascii_lowercase();
            if table.by_name.get(&*key).is_some_and(|listed| Arc::ptr_eq(listed, served)) {
                table.by_name.remove(&*key);
            }
        }
    }

    /// An entity of a namespace has these keys.
    pub(crate) fn set_entity_keys(&self, id: (u16, NamespaceId), entity: &str, rules: &[AuthorizationRule]) {
        let Some(served) = self.get(id) else { return };
        if served.authority.set_entity_rules(entity, amqp_gateway::entity_rules(rules)) {
            self.lost_keys.send_replace(());
        }
    }

    fn authority_of(&self, name: &str) -> Arc<Authority> {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        let key = namespace_key(name).unwrap_or_default();
        match configured.authorities.get(&key) {
            Some(authority) => Arc::clone(authority),
            None => Arc::new(Authority::new(configured.created.clone())),
        }
    }

    /// Whether the configuration names the namespace.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        namespace_key(name).is_ok_and(|key| configured.authorities.contains_key(&key))
    }

    /// The authority of a namespace that the configuration names.
    pub(crate) fn configured_authority(&self, key: &str) -> Option<Arc<Authority>> {
        let configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        configured.authorities.get(key).map(Arc::clone)
    }

    /// The configuration was read again: the credentials that it gives are these from now on. A namespace that it does not name
    /// has those that an interface would give it now.
    pub(crate) fn reconfigure(&self, authorities: BTreeMap<Box<str>, Arc<Authority>>, created: Credentials) {
        let mut lost = false;
        {
            let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = authorities.into_iter().map(|(key, authority)| {
                // A namespace that there is keeps its authority, which its connections hold.
                let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
                match table.by_name.get(&key) {
                    Some(served) => {
                        lost |= served.authority.reconfigure(&authority);
                        (key, Arc::clone(&served.authority))
                    }
                    None => (key, authority),
                }
            });
            let kept: BTreeMap<_, _> = kept.collect();
            *configured = Configured { authorities: kept, created };
        }
        for served in self.all() {
            // The default one has the configuration's own credentials.
            if &*served.name != DEFAULT_NAMESPACE && !self.is_configured(&served.name) {
                lost |= served.authority.reconfigure(&Authority::new(self.created()));
            }
        }
        self.share_names();
        if lost {
            self.lost_keys.send_replace(());
        }
    }

    fn created(&self) -> Credentials {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner).created.clone()
    }
}

/// Connections and namespaces of each shard, and those that are to be created.
pub(crate) struct ShardLoads {
    loads: Vec<((usize, usize), Arc<Executor>)>,
    first: Arc<Executor>,
}

impl ShardLoads {
    /// The shard for a new namespace: that with the fewest connections, and among those with the fewest namespaces. It gets a
    /// namespace more.
    pub(crate) fn take_least(&mut self) -> Arc<Executor> {
        let least = self.loads.iter_mut().min_by_key(|(load, _)| *load);
        least.map_or_else(
            || Arc::clone(&self.first),
            |((_, namespaces), executor)| {
                *namespaces += 1;
                Arc::clone(executor)
            },
        )
    }
}

/// Whether a namespace with these settings gets a name that it does not have `before`, its own or that of a host. Such a name is given
/// only while all shards work: one that has failed may have made a namespace durable of which nobody was told.
pub(crate) fn takes_a_name(before: Option<&NamespaceDefinition>, settings: &NamespaceSettings) -> bool {
    before.is_none_or(|before| {
        settings.hostnames.iter().any(|hostname| !before.settings.hostnames.contains(hostname))
    })
}

/// Reason for which connections of the namespace have to leave it, if they have.
pub(crate) fn reason_to_leave(served: &ServedNamespace) -> Option<CloseReason> {
    let definition = served.definition();
    match definition.state {
        _ if served.executor.has_ended() => Some(CloseReason::ShardFailed),
        NamespaceState::Active if definition.settings.held => Some(CloseReason::NamespaceHeld),
        NamespaceState::Active => None,
        NamespaceState::Deleting | NamespaceState::Deleted => Some(CloseReason::NamespaceDeleted),
    }
}

/// Has the authority of a namespace refuse tokens for hosts of another: the host of a token leads where that of a connection does.
fn judge_token_hosts(table: &Arc<RwLock<Table>>, served: &ServedNamespace) {
    // The table holds the namespaces, and they their authorities.
    let table = Arc::downgrade(table);
    let here = Arc::clone(&served.name);
    served.authority.token_hosts.judge_by(move |host| {
        let table = table.upgrade()?;
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        foreign_host(&table, host, &here)
    });
}

/// The namespace to which the host of a token leads, if it is not `here`.
fn foreign_host(table: &Table, host: &str, here: &str) -> Option<Box<ForeignHost>> {
    if table.by_id.len() == 1 {
        return None;
    }
    let leads_to = match table.hosts.lookup(Some(host)) {
        HostLookup::Found(served) | HostLookup::Default(served) => Some(&*served.name),
        HostLookup::Unknown(_) => None,
    };
    (leads_to != Some(here)).then(|| Box::new(ForeignHost::new(host, leads_to, here)))
}

fn warn_of(conflict: &NameConflict) {
    warn!(%conflict, "a host name of a namespace is not used");
}

#[cfg(test)]
mod tests;
