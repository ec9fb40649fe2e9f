//! One run of the load generator and what it says in JSON.
//!
//! Invariant: a run that delivered a wrong body, refused a message or lost a connection is an error, not a figure.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::broker::{Broker, Running};
use crate::Fallible;

/// The generator's result.
#[derive(Debug)]
pub(super) struct Outcome(Value);

/// Runs it against `broker`, metering the process of `running`.
pub(super) fn run(
    load: &Path,
    broker: &Broker,
    running: &Running,
    address: &str,
    words: &[String],
) -> Fallible<Outcome> {
    let mut command = Command::new(load);
    command.args(["--client", "raw", "--ack", "range", "--port"]).arg(broker.port.to_string());
    command.arg("--pid").arg(running.pid.to_string()).args(["--address", address]);
    if let Some((user, password)) = broker.user {
        command.args(["--user", user, "--password", password]);
    }
    let output = command.args(words).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let result = serde_json::from_str(said.trim()).map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("the generator said no result: {}", errors.trim().lines().last().unwrap_or("nothing"))
    })?;
    Outcome(result).checked()
}

impl Outcome {
    fn checked(self) -> Fallible<Self> {
        for trouble in ["bad", "rejected", "released", "modified", "failed_conns", "failed"] {
            match self.number(trouble) {
                Some(count) if count > 0.0 => return Err(format!("{count} {trouble}").into()),
                _ => {}
            }
        }
        Ok(self)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    pub(super) fn need(&self, name: &str) -> Fallible<f64> {
        self.number(name).ok_or_else(|| format!("the generator's result has no `{name}`").into())
    }

    /// p50, p99 and p99.9 of a histogram in microseconds; none when it is empty.
    pub(super) fn latency(&self, name: &str) -> Option<[f64; 3]> {
        let histogram = self.0.get(name)?;
        let number = |name: &str| histogram.get(name).and_then(Value::as_f64);
        (number("n")? > 0.0).then_some([number("p50")?, number("p99")?, number("p999")?])
    }
}

#[cfg(test)]
mod tests;
