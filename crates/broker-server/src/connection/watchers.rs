//! Observers of one connection: the audit log, the connection's own log, and the exporter of spans.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use amqp_gateway::Gateway;

use super::log::{Carried, ConnectionLog};
use crate::{
    audit::Audit,
    otlp::Spans,
    wrong_protocol::{AMQP_0_9_1, Mistake, WrongProtocols},
};

/// Observers of one connection.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// The exporter of spans, if they are wanted.
    pub(crate) spans: Option<Spans>,
    /// The log of changes and of refused log-ins.
    pub(crate) audit: Arc<Audit>,
    /// The log of clients that speak other protocols.
    pub(crate) wrong_protocols: Arc<WrongProtocols>,
    /// The connection's own log, if it is wanted.
    pub(crate) log: Option<ConnectionLog>,
}

impl Watchers {
    /// Passes on what the gateway of the client at `from` has noted for the logs and for traces.
    pub(super) fn update(&mut self, gateway: &mut Gateway, from: SocketAddr) {
        self.audit.write_notes(from, &gateway.record().take_changes());
        self.audit.refuse_logins(from, &gateway.record().take_refused_logins());
        if let Some(spans) = &self.spans {
            spans.take(gateway.take_spans());
        }
        if let Some(log) = &mut self.log {
            log.update(gateway);
        }
    }

    /// The connection has ended at `now`, because of `failure` if AMQP does not tell why.
    pub(super) fn end(
        &mut self,
        gateway: &mut Gateway,
        from: SocketAddr,
        now: Instant,
        carried: Carried,
        failure: Option<&str>,
    ) {
        self.update(gateway, from);
        if gateway.record().refused_header() == Some(AMQP_0_9_1) {
            self.wrong_protocols.note(now, from, Mistake::Amqp091);
        }
        if let Some(log) = &mut self.log {
            log.close(gateway, carried, failure);
        }
    }
}
