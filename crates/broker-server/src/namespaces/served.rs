//! One namespace at the side of the connections: who may do what in it, and how much of it there may be.
//!
//! Invariant: its limits hold for all its connections together, from the moment at which its definition is applied.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use amqp_gateway::{GatewayConfig, GatewayNamespace};
use broker_auth::Authority;
use broker_core::{NamespaceDefinition, NamespaceLimit, NamespaceState, Work};
use broker_node::NamespaceId;

use super::{handshake_meter::HandshakeMeter, send_rate::SendRate};
use crate::{
    executor::Executor, in_flight_limit::InFlightLimit, ingress_credit::IngressCredit, io_threads::CountGuard,
};

/// A namespace that clients can reach.
#[derive(Debug)]
pub(crate) struct ServedNamespace {
    pub(crate) id: NamespaceId,
    pub(crate) name: Arc<str>,
    /// The shard that it lives in.
    pub(crate) executor: Arc<Executor>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) gateway: Arc<GatewayConfig>,
    /// The account of its commands in flight.
    pub(crate) ingress_credit: Arc<IngressCredit>,
    pub(crate) send_rate: SendRate,
    pub(crate) handshakes: HandshakeMeter,
    connections: Arc<AtomicUsize>,
    refused_connections: AtomicUsize,
    /// Units of work of the gateways of its connections.
    gateway_work: AtomicU64,
    /// Those refused for the sake of other namespaces.
    beyond_share: AtomicUsize,
    /// Clients may stay: what the definition says, for those who ask with everything that they read.
    is_open: AtomicBool,
    definition: RwLock<Arc<NamespaceDefinition>>,
}

/// Reason for which a namespace takes no connection more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AdmitError {
    /// It has as many as its limit says.
    Limit(usize),
    /// It has its share of the last ones of the broker.
    BeyondShare { connections: usize },
}

impl ServedNamespace {
    /// A namespace that a shard has. What is in flight counts in `all`, too.
    pub(crate) fn new(
        definition: NamespaceDefinition,
        executor: Arc<Executor>,
        authority: Arc<Authority>,
        gateway: &GatewayConfig,
        all: Arc<InFlightLimit>,
    ) -> Self {
        let dynamic_nodes = Arc::new(gateway.dynamic_nodes.of_another_namespace());
        let gateway = Arc::new(GatewayConfig { dynamic_nodes, ..gateway.clone() });
        let served = Self {
            id: NamespaceId::of(&definition),
            name: Arc::from(&*definition.name),
            executor,
            authority,
            gateway,
            ingress_credit: Arc::new(IngressCredit::of_namespace(all)),
            send_rate: SendRate::default(),
            handshakes: HandshakeMeter::default(),
            connections: Arc::default(),
            refused_connections: AtomicUsize::new(0),
            gateway_work: AtomicU64::new(0),
            beyond_share: AtomicUsize::new(0),
            is_open: AtomicBool::new(may_be_used(&definition)),
            definition: RwLock::new(Arc::new(definition)),
        };
        served.take_limits();
        served.take_names();
        served
    }

    /// Its shard, and its id there.
    pub(crate) fn residence(&self) -> (u16, NamespaceId) {
        (self.executor.shard(), self.id)
    }

    /// The definition, as it is now.
    pub(crate) fn definition(&self) -> Arc<NamespaceDefinition> {
        Arc::clone(&self.definition.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The definition has changed. True if a key of it permits less than before, or is gone.
    pub(crate) fn apply(&self, definition: NamespaceDefinition) -> bool {
        self.is_open.store(may_be_used(&definition), Ordering::Release);
        *self.definition.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(definition);
        self.take_limits();
        self.take_names();
        self.take_keys()
    }

    fn take_limits(&self) {
        let definition = self.definition();
        let limits = definition.settings.limits;
        let bytes = limits.get(NamespaceLimit::InFlightBytes).unwrap_or(u64::MAX);
        self.ingress_credit.set(usize::try_from(bytes).unwrap_or(usize::MAX), definition.settings.weight);
        self.send_rate.set(limits.get(NamespaceLimit::SendsPerSecond));
    }

    /// Tells the authority the host names that lead here.
    fn take_names(&self) {
        let definition = self.definition();
        let names = definition.settings.hostnames.iter().map(ToString::to_string);
        self.authority.set_own_names(names.collect());
    }

    /// Gives the authority the keys that interfaces have made.
    pub(crate) fn take_keys(&self) -> bool {
        let keys = amqp_gateway::entity_rules(&self.definition().keys);
        self.authority.set_namespace_rules(keys)
    }

    /// Whether clients may connect, and those that are connected may stay.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// A place for one more connection, where its share of those of the broker is so many at the moment.
    pub(crate) fn admit(&self, share: Option<usize>) -> Result<CountGuard, AdmitError> {
        let limit = self.definition().settings.limits.get(NamespaceLimit::Connections);
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let share = share.unwrap_or(usize::MAX);
        CountGuard::take_below(&self.connections, limit.min(share)).ok_or_else(|| {
            if limit <= share {
                self.refused_connections.fetch_add(1, Ordering::Relaxed);
                return AdmitError::Limit(limit);
            }
            self.beyond_share.fetch_add(1, Ordering::Relaxed);
            AdmitError::BeyondShare { connections: self.connections() }
        })
    }

    /// Connections that it has now.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that it was too full for.
    pub(crate) fn refused_connections(&self) -> usize {
        self.refused_connections.load(Ordering::Relaxed)
    }

    /// The gateway of one of its connections has done so much.
    pub(crate) fn add_gateway_work(&self, work: Work) {
        if work.0 > 0 {
            self.gateway_work.fetch_add(work.0, Ordering::Relaxed);
        }
    }

    /// Work of the gateways of its connections, those that are gone included.
    pub(crate) fn gateway_work(&self) -> Work {
        Work(self.gateway_work.load(Ordering::Relaxed))
    }

    /// Connections that were refused because it had its share of the last ones.
    pub(crate) fn refused_for_share(&self) -> usize {
        self.beyond_share.load(Ordering::Relaxed)
    }

    /// The namespace, as a gateway uses it.
    pub(crate) fn for_gateway(&self) -> GatewayNamespace {
        GatewayNamespace {
            name: Arc::clone(&self.name),
            authority: Arc::clone(&self.authority),
            config: Arc::clone(&self.gateway),
        }
    }
}

/// Whether a namespace so defined takes clients.
fn may_be_used(definition: &NamespaceDefinition) -> bool {
    definition.state == NamespaceState::Active && !definition.settings.held
}
