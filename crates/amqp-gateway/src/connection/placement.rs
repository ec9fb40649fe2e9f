//! Placement of a connection: the namespace that its client means, which the shell knows.
//!
//! The gateway asks at two moments. The log-in comes first and is judged by the authority of the namespace that the host name of
//! `sasl-init` leads to. The host name of the open decides; until it is answered, no command reaches the core.
//!
//! Invariant: one request waits at a time, and the engine looks at no further input until it is answered.

use std::sync::Arc;

use amqp_codec::performative::Open;
use broker_auth::Authority;

use crate::config::GatewayConfig;

/// Request for the namespace that a client means, by the host names that it has sent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PlacementRequest {
    /// The client logs in by SASL.
    Login {
        /// `hostname` of its `sasl-init`.
        hostname: Option<Box<str>>,
    },
    /// The client opens the connection.
    Open {
        /// `hostname` of its `open`, which decides.
        hostname: Option<Box<str>>,
        /// `hostname` of its `sasl-init`, for an open that names none.
        sasl_hostname: Option<Box<str>>,
    },
}

/// A namespace, as a connection uses it.
#[derive(Clone, Debug)]
pub struct GatewayNamespace {
    pub name: Arc<str>,
    /// Judge of its log-ins and tokens.
    pub authority: Arc<Authority>,
    /// Limits and names of its connections.
    pub config: Arc<GatewayConfig>,
}

/// Answer to a [`PlacementRequest`].
#[derive(Clone, Debug)]
pub enum Placement {
    /// The connection means this namespace.
    To(GatewayNamespace),
    /// Log-in only: the client has named no host, or one that leads nowhere, and may mean another namespace. This
    /// one judges first; a log-in that it refuses is judged by that of the open.
    Uncertain(GatewayNamespace),
    /// The connection is refused. A log-in is then judged as if it were uncertain, because only the open has an answer with an
    /// error in it.
    Refused(PlacementRefusal),
}

/// Reason for which a connection gets no namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PlacementRefusal {
    /// No namespace has the host name, and the default one takes none that is unknown.
    Unknown {
        /// The host name, as the client wrote it.
        hostname: Box<str>,
    },
    /// The namespace is held for maintenance.
    OnHold { namespace: Arc<str> },
    /// The namespace has as many connections as it may.
    TooManyConnections { namespace: Arc<str>, limit: usize },
    /// The broker has few places for connections left, and the namespace has its share of them.
    BeyondShare { namespace: Arc<str>, connections: usize },
    /// The shard of the namespace has failed, and recovers from its journal.
    Recovering { namespace: Arc<str> },
    /// The namespace has been deleted.
    Deleted { namespace: Arc<str> },
}

impl PlacementRefusal {
    /// The namespace that refuses; `None`: there is none.
    pub(crate) const fn namespace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Unknown { .. } => None,
            Self::OnHold { namespace }
            | Self::Recovering { namespace }
            | Self::TooManyConnections { namespace, .. }
            | Self::BeyondShare { namespace, .. }
            | Self::Deleted { namespace } => Some(namespace),
        }
    }
}

/// The request of one connection that waits for its answer.
#[derive(Debug, Default)]
pub(crate) struct PlacementRequests {
    awaited: AwaitedPlacement,
    /// The request, until the shell takes it.
    untaken: Option<PlacementRequest>,
    /// `hostname` of the client's `sasl-init`, until its open.
    sasl_hostname: Option<Box<str>>,
}

/// The step of the handshake that waits.
#[derive(Debug, Default)]
pub(crate) enum AwaitedPlacement {
    #[default]
    None,
    Login,
    Open,
}

impl PlacementRequests {
    /// The client's `sasl-init` has come.
    pub(crate) fn ask_login(&mut self, hostname: Option<String>) {
        let hostname = hostname.map(String::into_boxed_str);
        self.sasl_hostname.clone_from(&hostname);
        self.awaited = AwaitedPlacement::Login;
        self.untaken = Some(PlacementRequest::Login { hostname });
    }

    /// The client's open has come.
    pub(crate) fn ask_open(&mut self, open: &Open) {
        let hostname = open.hostname.as_deref().map(Box::from);
        let sasl_hostname = self.sasl_hostname.take();
        self.awaited = AwaitedPlacement::Open;
        self.untaken = Some(PlacementRequest::Open { hostname, sasl_hostname });
    }

    /// The request that the shell has not taken yet.
    pub(crate) const fn take_request(&mut self) -> Option<PlacementRequest> {
        self.untaken.take()
    }

    /// The step that the answer is for.
    pub(crate) fn take_awaited(&mut self) -> AwaitedPlacement {
        self.untaken = None;
        std::mem::take(&mut self.awaited)
    }
}
