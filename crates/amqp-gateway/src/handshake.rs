//! Open of a connection: the properties that the broker offers, and those that the client states.
//!
//! Invariant: the core learns of a client only once its open has come.

use std::sync::Arc;

use amqp_codec::{
    performative::Open,
    raw::{AnnotationValue, RawMap},
    types::Symbol,
};
use amqp_engine::{Config, OpenReply};
use broker_auth::{Authority, Identity, PeerFacts};
use broker_core::Command;

use crate::{
    client_library::ClientLibrary, condition::Refusal, config::GatewayConfig, gateway::Gateway,
    settlement_rules::Dialect,
};

/// The engine's settings for one connection. `note` follows the errors that it raises itself.
pub(crate) fn engine_config(
    config: &GatewayConfig,
    authority: &Authority,
    peer: &PeerFacts,
    note: String,
) -> Arc<Config> {
    let mechanisms = authority.sasl_mechanisms(peer);
    Arc::new(Config {
        container_id: config.container_id.clone(),
        max_frame_size: config.max_frame_bytes,
        channel_max: config.max_sessions.saturating_sub(1),
        handle_max: config.max_links.saturating_sub(1),
        max_links: config.max_links as usize,
        idle_time_out: Some(config.idle_time_out),
        open_timeout: config.open_time_out,
        sasl_mechanisms: mechanisms.into_iter().map(Symbol::from_static).collect(),
        require_sasl: !anonymous_may_act(authority, peer),
        max_message_size: config.max_message_bytes,
        max_partial_bytes: usize::try_from(config.max_message_bytes.saturating_mul(2)).unwrap_or(usize::MAX),
        offered_capabilities: ["ANONYMOUS-RELAY", "SHARED-SUBS"].map(Symbol::from_static).to_vec(),
        open_properties: Some(RawMap::with_symbol_keys(&[
            ("product", AnnotationValue::Str("Ferrybus")),
            ("version", AnnotationValue::Str(env!("CARGO_PKG_VERSION"))),
        ])),
        error_note: note,
        ..Config::default()
    })
}

/// Whether a client that shows nothing has rights; one without SASL is accepted only then.
fn anonymous_may_act(authority: &Authority, peer: &PeerFacts) -> bool {
    authority.sasl(peer, ANONYMOUS, None).is_ok_and(|identity| identity != Identity::nobody())
}

/// The SASL mechanism of clients that show nothing.
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

impl Gateway {
    /// The client's open has come.
    pub(crate) fn on_opened(&mut self, open: &Open) {
        self.container = open.container_id.as_str().into();
        self.record.set_opened();
        self.library = ClientLibrary::of(open);
        if self.library.is_service_bus() {
            // The receivers of .NET send no properties by which they could be known.
            self.dialect = Dialect::ServiceBus;
        }
        self.log_in_without_sasl();
        if let Some(limit) = self.over_limit {
            self.engine.accept_open(OpenReply::default());
            return self.close_with(&Refusal::TooManyConnections { limit });
        }
        if !self.connected {
            self.connected = true;
            self.commands.push(Command::Connect);
        }
        self.engine.accept_open(OpenReply::default());
        self.raise_delivery_window();
    }
}
