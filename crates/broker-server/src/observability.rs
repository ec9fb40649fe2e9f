//! Configuration of metrics, logs and traces.
//!
//! Invariant: plain data.

use std::time::Duration;

use amqp_gateway::REFUSALS_PER_MINUTE;

use crate::otlp::TelemetryConfig;

/// Configuration of metrics, logs and traces.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObservabilityConfig {
    /// `/metrics` needs no log-in.
    pub anonymous_metrics: bool,
    /// Entities shown in one scrape.
    pub max_entities: usize,
    /// An operation that takes longer is logged; `None`: none is.
    pub slow_operation: Option<Duration>,
    /// Refused attempts in the audit log per minute: of known clients, and as many of all others.
    pub refused_attempts_per_minute: u32,
    /// Refusals that carry a tracking id and that the log tells in a minute.
    pub refusals_per_minute: u32,
    /// Log each AMQP connection that is opened and closed.
    pub log_connections: bool,
    /// Exporter of spans; `None`: no spans.
    pub telemetry: Option<TelemetryConfig>,
}

impl Default for ObservabilityConfig {
    fn default() -> Self {
        Self {
            anonymous_metrics: false,
            max_entities: 10_000,
            slow_operation: Some(Duration::from_secs(1)),
            refused_attempts_per_minute: 60,
            refusals_per_minute: REFUSALS_PER_MINUTE,
            log_connections: true,
            telemetry: None,
        }
    }
}
