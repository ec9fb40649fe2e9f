//! The text that is printed once the broker listens.
//!
//! Invariant: no key is shown that is not public knowledge: logs are read by many. With a log for machines it is one line
//! of JSON.

use std::net::SocketAddr;

use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, NamedKey};
use broker_server::Server;
use serde_json::json;

use crate::{failure::Failure, log_settings::LogFormat, logging, output, settings::Limits};

/// The text that is printed once the broker listens.
#[derive(Debug)]
pub(crate) struct Banner {
    /// Name of a key to log in with, if one is configured.
    key: Option<String>,
    /// The key is the development key, which is public knowledge.
    is_public: bool,
    format: LogFormat,
    /// The broker stands in for the Azure emulator.
    is_emulator: bool,
}

/// Addresses of a broker.
#[derive(Clone, Copy, Debug)]
struct Addresses<'a> {
    amqp: &'a [SocketAddr],
    amqps: &'a [SocketAddr],
    http: &'a [SocketAddr],
}

impl Banner {
    /// Of a broker that is started with these.
    pub(crate) fn new(limits: &Limits, format: LogFormat) -> Self {
        let key = limits.reloadable.default_namespace.credentials.keys.first();
        let is_public = key.is_some_and(NamedKey::is_public);
        let key = key.map(|key| key.name.clone());
        Self { key, is_public, format, is_emulator: limits.has_emulator() }
    }

    /// Prints it.
    pub(crate) fn print(&self, server: &Server) -> Result<(), Failure> {
        let (amqp, amqps, http) = (server.addresses(), server.tls_addresses(), server.http_addresses());
        let addresses = Addresses { amqp, amqps, http };
        match self.format {
            LogFormat::Text => self.lines(addresses).iter().try_for_each(output::line),
            LogFormat::Json => output::line(self.json(addresses)),
        }
    }

    fn lines(&self, addresses: Addresses<'_>) -> Vec<String> {
        let mut lines = vec![format!("ferrybus {} is ready", env!("CARGO_PKG_VERSION"))];
        let Addresses { amqp, amqps, http } = addresses;
        for (what, addresses) in [("amqp ", amqp), ("amqps", amqps), ("http ", http)] {
            if !addresses.is_empty() {
                lines.push(format!("  {what}  {}", texts(addresses).join(", ")));
            }
        }
        lines.push("connection string".to_owned());
        lines.push(format!("  {}", self.connection_string(addresses)));
        if self.is_emulator {
            lines.push(EMULATOR_IS_UP.to_owned());
        }
        lines
    }

    /// One line, as those of the log.
    fn json(&self, addresses: Addresses<'_>) -> String {
        let mut message = format!("ferrybus {} is ready", env!("CARGO_PKG_VERSION"));
        if self.is_emulator {
            message = format!("{message}: {EMULATOR_IS_UP}");
        }
        logging::json_line(
            "INFO",
            &message,
            &[
                ("amqp", json!(texts(addresses.amqp))),
                ("amqps", json!(texts(addresses.amqps))),
                ("http", json!(texts(addresses.http))),
                ("connection_string", json!(self.connection_string(addresses))),
            ],
        )
    }

    fn connection_string(&self, Addresses { amqp, amqps, .. }: Addresses<'_>) -> String {
        let plain = amqp.first();
        let Some(address) = plain.or(amqps.first()) else { return String::new() };
        let local = address.ip().is_unspecified() || amqp.iter().any(|address| address.ip() == LOCALHOST);
        let (default, emulator) =
            if plain.is_some() { (5672, "UseDevelopmentEmulator=true;") } else { (5671, "") };
        let host = match address {
            _ if local => "localhost".into(),
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let port = if address.port() == default { String::new() } else { format!(":{}", address.port()) };
        let login = match &self.key {
            Some(name) if self.is_public => {
                format!("SharedAccessKeyName={name};SharedAccessKey={DEVELOPMENT_KEY};")
            }
            Some(name) => format!("SharedAccessKeyName={name};SharedAccessKey=<the key `{name}`>;"),
            None => {
                format!("SharedAccessKeyName={DEVELOPMENT_KEY_NAME};SharedAccessKey=<none is configured>;")
            }
        };
        format!("Endpoint=sb://{host}{port};{login}{emulator}")
    }
}

fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// The line that tools which start the emulator's container wait for, word for word.
const EMULATOR_IS_UP: &str = "Emulator Service is Successfully Up!";
const LOCALHOST: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[cfg(test)]
mod tests;
