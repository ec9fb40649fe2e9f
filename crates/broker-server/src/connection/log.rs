//! The log of one AMQP connection: that it was opened, who logged in, and how it ended.
//!
//! Invariant: a connection that its client never opened has no line; each other has one when it is opened and one when
//! it is closed. What the client chose is cut short.

use std::{net::SocketAddr, time::Instant};

use amqp_gateway::Gateway;
use broker_core::ClientId;
use tracing::info;

use crate::{audit::short, clock, metrics::Transport};

/// The log of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionLog {
    id: u64,
    from: SocketAddr,
    transport: Transport,
    began: Instant,
    stage: Stage,
}

/// The last line that was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Begun,
    Opened,
    /// A token identifies the client.
    Authenticated,
    Closed,
}

/// Bytes that the socket has carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl ConnectionLog {
    /// The log of a connection that begins now. Its number is that of `ferrybus connection list`.
    pub(crate) fn new(client: ClientId, from: SocketAddr, transport: Transport) -> Self {
        Self { id: client.0, from, transport, began: clock::instant(), stage: Stage::Begun }
    }

    /// Writes the lines that are due.
    pub(super) fn update(&mut self, gateway: &mut Gateway) {
        if self.stage == Stage::Begun && gateway.record().has_opened() {
            self.stage = Stage::Opened;
            let (about, protocol, from) = (gateway.about(), self.transport.protocol(), self.from);
            let container_id = short(&about.container_id);
            let namespace = &*about.namespace;
            info!(id = self.id, %from, protocol, namespace, container_id, user = &*about.user, "connection opened");
        }
        if self.stage == Stage::Opened && gateway.authentication() == "token" {
            self.stage = Stage::Authenticated;
            let (about, from) = (gateway.about(), self.from);
            let container_id = short(&about.container_id);
            let namespace = &*about.namespace;
            info!(id = self.id, %from, namespace, container_id, user = short(&about.keys.join(", ")), "connection authenticated by token");
        }
    }

    /// The connection is over. `failure` is what has ended it on this side of AMQP.
    pub(super) fn close(&mut self, gateway: &mut Gateway, carried: Carried, failure: Option<&str>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Closed);
        if matches!(stage, Stage::Begun | Stage::Closed) {
            return;
        }
        let about = gateway.about();
        let (from, protocol, container_id) =
            (self.from, self.transport.protocol(), short(&about.container_id));
        let keys = about.keys.join(", ");
        let user = if keys.is_empty() { &*about.user } else { short(&keys) };
        let duration_ms = clock::millis(clock::instant().saturating_duration_since(self.began));
        let Carried { bytes_in, bytes_out } = carried;
        let ending = gateway.record().ending();
        let reason = failure.or(ending.map(|ending| ending.reason)).unwrap_or("connection lost");
        let condition = ending.map_or("", |ending| &*ending.condition);
        let description = ending.map_or("", |ending| &*ending.description);
        info!(
            id = self.id,
            %from,
            protocol,
            namespace = &*about.namespace,
            container_id,
            user,
            duration_ms,
            bytes_in,
            bytes_out,
            reason,
            condition,
            description,
            "connection closed"
        );
    }
}
