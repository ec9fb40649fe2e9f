//! Where log lines go and how they look.
//!
//! Invariant: standard error only, so that standard output stays data.

use tracing_subscriber::EnvFilter;

use crate::{
    failure::Failure,
    output,
    settings::{LogFormat, LogSettings},
};

/// Starts logging for the rest of the process. `FERRYBUS_LOG` stands in where the settings are silent.
pub(crate) fn start(settings: &LogSettings) -> Result<(), Failure> {
    let from_environment = || std::env::var("FERRYBUS_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = settings.level.clone().or_else(from_environment).unwrap_or_else(|| "info".into());
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        Failure::misuse(format_args!("`{filter}` is not a log filter: {error}"))
            .hint("expected `error`, `warn`, `info`, `debug`, `trace`, or such as `info,broker_server=debug`")
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format.unwrap_or_default() {
        LogFormat::Text => lines.with_ansi(ansi()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::new(format_args!("cannot start logging: {error}")))
}

fn ansi() -> bool {
    use std::io::IsTerminal as _;
    std::io::stderr().is_terminal() && output::colours_wanted()
}
