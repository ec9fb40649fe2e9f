//! How the broker lets itself be watched.
//!
//! Invariant: nothing is shown to strangers unless the operator says so.

use broker_server::ObserveConfig;
use serde::Deserialize;

use super::{Settings, bounds::within};
use crate::failure::Failure;

/// `[metrics]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MetricsSettings {
    pub(crate) anonymous: Option<bool>,
    pub(crate) max_entities: Option<usize>,
}

impl Settings {
    /// What is shown to whom.
    pub(super) fn observe(&self) -> Result<ObserveConfig, Failure> {
        let default = ObserveConfig::default();
        let MetricsSettings { anonymous, max_entities } = self.metrics;
        Ok(ObserveConfig {
            anonymous_metrics: anonymous.unwrap_or(default.anonymous_metrics),
            max_entities: within(
                "metrics.max_entities",
                max_entities,
                default.max_entities,
                0,
                1_000_000,
                "entities",
            )?,
        })
    }
}
