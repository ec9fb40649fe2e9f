//! The keys of `[log]`.
//!
//! Invariant: plain data as written by the operator.

use serde::Deserialize;

use crate::size_and_duration::Span;

/// `[log]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    pub(crate) level: Option<String>,
    pub(crate) format: Option<LogFormat>,
    pub(crate) slow_operation: Option<Span>,
    pub(crate) refused_attempts_per_minute: Option<u64>,
    pub(crate) refusals_per_minute: Option<u64>,
    pub(crate) connections: Option<bool>,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line, for machines.
    Json,
}
