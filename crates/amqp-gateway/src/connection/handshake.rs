//! Handshake of a connection: the mechanisms, limits and properties that the broker offers.
//!
//! Invariant: a client may leave SASL out only where a client without credentials has rights.

use std::sync::Arc;

use amqp_codec::{
    raw::{AnnotationValue, RawMap},
    types::Symbol,
};
use amqp_engine::Config;
use broker_auth::{Authority, Identity, PeerFacts};

use super::client::ANONYMOUS;
use crate::{config::GatewayConfig, transfer::delivery_delay};

/// Capabilities that the open offers, by the names of JMS clients and other brokers.
const CAPABILITIES: [&str; 3] = ["ANONYMOUS-RELAY", "SHARED-SUBS", delivery_delay::CAPABILITY];

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
        offered_capabilities: CAPABILITIES.map(Symbol::from_static).to_vec(),
        open_properties: Some(RawMap::with_symbol_keys(&[
            ("product", AnnotationValue::Str("Ferrybus")),
            ("version", AnnotationValue::Str(env!("CARGO_PKG_VERSION"))),
        ])),
        error_note: note,
        hash_seed: config.dynamic_nodes.hash_seed(),
        ..Config::default()
    })
}

/// Whether a client that shows nothing has rights; one without SASL is accepted only then.
fn anonymous_may_act(authority: &Authority, peer: &PeerFacts) -> bool {
    authority.sasl(peer, ANONYMOUS, None, 0).is_ok_and(|identity| identity != Identity::nobody())
}
