//! Placer: says which namespace one connection means, and keeps its place there.
//!
//! Invariant: a connection that was placed counts in its namespace until it ends, and none is placed in a namespace that takes
//! no connections.

use std::sync::Arc;

use amqp_gateway::{CloseReason, Placement, PlacementRefusal, PlacementRequest};
use broker_core::NamespaceState;

use crate::{
    connection_limit::ConnectionLimit,
    ingress_credit::IngressCredit,
    io_threads::CountGuard,
    namespace_names::VIRTUAL_HOST,
    namespaces::{
        NamespaceDirectory, ServedNamespace,
        directory::{Meant, reason_to_leave},
        served::AdmitError,
    },
};

/// Places one connection.
pub(crate) struct Placer {
    directory: Arc<NamespaceDirectory>,
    connection_limit: Arc<ConnectionLimit>,
    /// TLS server name, or host of the HTTP request that became the connection.
    first_sign: Option<Box<str>>,
    placed: Option<(Arc<ServedNamespace>, CountGuard)>,
    /// The connection was told to leave its namespace.
    has_left: bool,
}

impl Placer {
    /// For a connection that came to this host name, if its transport says one.
    pub(crate) const fn new(
        directory: Arc<NamespaceDirectory>,
        connection_limit: Arc<ConnectionLimit>,
        first_sign: Option<Box<str>>,
    ) -> Self {
        Self { directory, connection_limit, first_sign, placed: None, has_left: false }
    }

    /// The namespace with which the connection begins, before its client has said anything.
    pub(crate) fn first(&self) -> Arc<ServedNamespace> {
        let meant = self.directory.lookup(self.first_sign.as_deref());
        meant.found().unwrap_or_else(|| self.directory.of_default())
    }

    /// The account in which the connection counts until its namespace is known.
    pub(crate) fn first_account(&self) -> Arc<IngressCredit> {
        self.directory.unplaced()
    }

    /// The namespace in which the connection was placed.
    pub(crate) fn placed(&self) -> Option<&Arc<ServedNamespace>> {
        self.placed.as_ref().map(|(namespace, _)| namespace)
    }

    /// Reason for which the connection takes nothing more of its client: its namespace is held or deleted. Given once. Somebody who
    /// was answered that it is sees no later send accepted, however late the word to leave reaches the connection.
    pub(crate) fn take_reason_to_leave(&mut self) -> Option<CloseReason> {
        let reason =
            self.placed().filter(|namespace| !namespace.is_open()).and_then(|it| reason_to_leave(it))?;
        self.leave().then_some(reason)
    }

    /// The connection leaves its namespace. False: it did before.
    pub(crate) const fn leave(&mut self) -> bool {
        !std::mem::replace(&mut self.has_left, true)
    }

    /// Answers a gateway.
    pub(crate) fn place(&mut self, request: &PlacementRequest) -> Placement {
        match request {
            PlacementRequest::Login { hostname } => self.for_login(hostname.as_deref()),
            PlacementRequest::Open { hostname, sasl_hostname } => {
                match self.meant([hostname.as_deref(), sasl_hostname.as_deref()]) {
                    Meant::Named(namespace) | Meant::Default(namespace) => self.enter(namespace),
                    Meant::Unknown(hostname) => Placement::Refused(PlacementRefusal::Unknown { hostname }),
                }
            }
        }
    }

    fn for_login(&self, hostname: Option<&str>) -> Placement {
        match self.meant([hostname, None]) {
            Meant::Named(namespace) => Placement::To(namespace.for_gateway()),
            Meant::Default(namespace) if self.directory.is_single() => Placement::To(namespace.for_gateway()),
            Meant::Default(namespace) => Placement::Uncertain(namespace.for_gateway()),
            Meant::Unknown(_) => Placement::Uncertain(self.directory.of_default().for_gateway()),
        }
    }

    /// The namespace that the first of these signs names; a missing virtual host ends the search. The first one decides where none does.
    fn meant(&self, signs: [Option<&str>; 2]) -> Meant {
        let all = signs.into_iter().chain([self.first_sign.as_deref()]);
        let mut undecided = None;
        for sign in all.flatten().filter(|sign| !sign.is_empty()) {
            match self.directory.lookup(Some(sign)) {
                named @ Meant::Named(_) => return named,
                unknown @ Meant::Unknown(_) if sign.starts_with(VIRTUAL_HOST) => return unknown,
                other => drop(undecided.get_or_insert(other)),
            }
        }
        undecided.unwrap_or_else(|| self.directory.lookup(None))
    }

    fn enter(&mut self, namespace: Arc<ServedNamespace>) -> Placement {
        if let Some(refusal) = refusal(&namespace) {
            return Placement::Refused(refusal);
        }
        match self.connection_limit.admit(&namespace, self.directory.is_single()) {
            Ok(place) => {
                let placement = Placement::To(namespace.for_gateway());
                self.placed = Some((namespace, place));
                placement
            }
            Err(error) => {
                let namespace = Arc::clone(&namespace.name);
                Placement::Refused(match error {
                    AdmitError::Limit(limit) => PlacementRefusal::TooManyConnections { namespace, limit },
                    AdmitError::BeyondShare { connections } => {
                        PlacementRefusal::BeyondShare { namespace, connections }
                    }
                })
            }
        }
    }
}

/// Reason for which a namespace takes no connections, if it does not.
fn refusal(namespace: &ServedNamespace) -> Option<PlacementRefusal> {
    let reason = reason_to_leave(namespace)?;
    let name = Arc::clone(&namespace.name);
    if reason == CloseReason::ShardFailed {
        return Some(PlacementRefusal::Recovering { namespace: name });
    }
    Some(match namespace.definition().state {
        NamespaceState::Active => PlacementRefusal::OnHold { namespace: name },
        NamespaceState::Deleting | NamespaceState::Deleted => PlacementRefusal::Deleted { namespace: name },
    })
}
