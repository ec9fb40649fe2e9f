//! Logging: destination and format of log lines.
//!
//! Invariant: standard error only, so that standard output stays data.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{self, PanicHookInfo},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use broker_admin::rfc_3339_millis;
use serde_json::{Map, Value};
use tracing::error;
use tracing_subscriber::{EnvFilter, reload};

use crate::{
    failure::Failure,
    log_settings::{LogFormat, LogSettings},
    output,
};

/// Says from now on what is logged.
pub(crate) struct LogLevel(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error>>);

impl LogLevel {
    /// Logs from now on what this says. It has been checked.
    pub(crate) fn set(&self, filter: EnvFilter) {
        if let Err(error) = (self.0)(filter) {
            error!(%error, "the log level cannot be changed");
        }
    }
}

/// The filter of log lines in the settings.
pub(crate) fn filter(settings: &LogSettings) -> Result<EnvFilter, Failure> {
    let filter = settings.level.as_deref().unwrap_or("info");
    EnvFilter::try_new(filter).map_err(|error| {
        Failure::misuse(format_args!("`{filter}` is not a log filter: {error}"))
            .hint("expected `error`, `warn`, `info`, `debug`, `trace`, or such as `info,broker_server=debug`")
    })
}

/// Starts logging for the rest of the process.
pub(crate) fn start(settings: &LogSettings) -> Result<LogLevel, Failure> {
    let lines = tracing_subscriber::fmt().with_env_filter(filter(settings)?).with_writer(std::io::stderr);
    let (started, level) = match settings.format.unwrap_or_default() {
        LogFormat::Text => {
            let lines = lines.with_ansi(ansi()).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), LogLevel(Box::new(move |filter| handle.reload(filter))))
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            (lines.try_init(), LogLevel(Box::new(move |filter| handle.reload(filter))))
        }
    };
    started.map_err(|error| Failure::new(format_args!("cannot start logging: {error}")))?;
    // A panic is a line of the log like others, in the format that was asked for.
    panic::set_hook(Box::new(log_panic));
    Ok(level)
}

/// A line that looks like those of the log for machines, for what is printed beside it.
pub(crate) fn json_line(level: &str, message: &str, fields: &[(&str, Value)]) -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = rfc_3339_millis(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX));
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
