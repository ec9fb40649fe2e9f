//! Where log lines go and how they look.
//!
//! Invariant: standard error only, so that standard output stays data.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{self, PanicHookInfo},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Map, Value};
use tracing::error;
use tracing_subscriber::EnvFilter;

use crate::{
    calendar::rfc_3339,
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
    started.map_err(|error| Failure::new(format_args!("cannot start logging: {error}")))?;
    // A panic is a line of the log like others, in the format that was asked for.
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// A line that looks like those of the log for machines, for what is printed beside it.
pub(crate) fn json_line(level: &str, message: &str, fields: &[(&str, Value)]) -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = rfc_3339(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX));
    let mut line = Map::new();
    let own = [("timestamp", Value::from(timestamp)), ("level", level.into()), ("message", message.into())];
    for (name, value) in own.iter().chain(fields) {
        line.insert((*name).to_owned(), value.clone());
    }
    line.insert("target".to_owned(), "ferrybus".into());
    Value::Object(line).to_string()
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = thread::current().name().unwrap_or_default().to_owned();
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        error!(place, thread, %backtrace, "panicked: {what}");
    } else {
        error!(place, thread, "panicked: {what}");
    }
}

fn ansi() -> bool {
    use std::io::IsTerminal as _;
    std::io::stderr().is_terminal() && output::colours_wanted()
}
