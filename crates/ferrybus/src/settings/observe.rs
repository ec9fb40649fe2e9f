//! Settings of metrics, logs and traces.
//!
//! Invariant: nothing is shown to strangers, and nothing is sent anywhere, unless the operator says so.

use std::{collections::BTreeMap, path::PathBuf};

use broker_server::{ServerConfig, TelemetryConfig};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::{
    Settings,
    limit::{Amount, METRICS_ENTITIES, REFUSALS, REFUSED_ATTEMPTS},
};
use crate::{ca_bundle, failure::Failure, size_and_duration::Span};

/// `[metrics]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsSettings {
    pub(crate) anonymous: Option<bool>,
    pub(crate) max_entities: Option<u64>,
}

/// `[telemetry]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TelemetrySettings {
    pub(crate) otlp_endpoint: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) service_name: Option<String>,
}

/// Headers may be secrets.
impl std::fmt::Debug for TelemetrySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TelemetrySettings")
            .field("otlp_endpoint", &self.otlp_endpoint)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Sets the configuration of metrics, logs and traces.
    pub(super) fn observe(&self, config: &mut ServerConfig) -> Result<(), Failure> {
        let given = |number: Option<u64>| number.map(Amount::Number);
        REFUSED_ATTEMPTS.apply(given(self.log.refused_attempts_per_minute), config)?;
        REFUSALS.apply(given(self.log.refusals_per_minute), config)?;
        METRICS_ENTITIES.apply(given(self.metrics.max_entities), config)?;
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let observe = &mut config.observe;
        observe.anonymous_metrics = self.metrics.anonymous.unwrap_or(observe.anonymous_metrics);
        observe.slow_operation = self.log.slow_operation.map_or(observe.slow_operation, Span::finite);
        observe.log_connections = self.log.connections.unwrap_or(observe.log_connections);
        observe.telemetry = telemetry(&self.telemetry, &environment)?;
        Ok(())
    }
}

/// Exporter of spans, from the file, else from the environment variables of OpenTelemetry.
fn telemetry(
    settings: &TelemetrySettings,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<TelemetryConfig>, Failure> {
    let base = || environment("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| with_path(&base));
    let endpoint = settings.otlp_endpoint.as_deref().map(with_path);
    let endpoint = endpoint.or_else(|| environment("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")).or_else(base);
    let Some(endpoint) = endpoint else { return Ok(None) };
    if !(endpoint.starts_with("http://") || endpoint.starts_with("https://")) {
        return Err(Failure::misuse(format_args!("`telemetry.otlp_endpoint` is `{endpoint}`"))
            .hint("expected the address of a collector's OTLP over HTTP, such as `http://localhost:4318`"));
    }
    let authorities = settings.ca.clone().or_else(ca_bundle::authorities);
    let given = settings.headers.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut headers: Vec<(String, String)> = given.collect();
    if headers.is_empty() {
        headers = listed(&environment(HEADERS).unwrap_or_default())?;
    }
    let service_name = settings.service_name.clone().or_else(|| environment("OTEL_SERVICE_NAME"));
    let service_name = service_name.unwrap_or_else(|| "ferrybus".to_owned());
    Ok(Some(TelemetryConfig { endpoint, headers, authorities, service_name }))
}

/// The address of a collector, with the path for spans where it has none.
fn with_path(base: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with("/v1/traces") { base.to_owned() } else { format!("{base}/v1/traces") }
}

const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// `name=value,name=value`, where values are percent-encoded, as OpenTelemetry takes it over from W3C Baggage.
fn listed(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = |(name, value): (&str, &str)| {
        let (name, value) = (name.trim(), percent_decode_str(value.trim()));
        match value.decode_utf8() {
            Ok(value) => Ok((name.to_owned(), value.into_owned())),
            // It may be a secret, so it is not shown.
            Err(_) => Err(Failure::misuse(format_args!("the value of `{name}` in `{HEADERS}` is not UTF-8"))
                .hint("a percent sign and two hexadecimal digits are a byte there; `%25` is a percent sign")),
        }
    };
    pairs.map(decoded).collect()
}

#[cfg(test)]
mod tests;
