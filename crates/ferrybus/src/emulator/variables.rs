//! Environment variables of the Azure Service Bus emulator's container (Microsoft Learn, "Test locally by using the
//! Service Bus emulator").
//!
//! Invariant: each that is set is either used or named in a notice. To accept a licence needs no notice.

use crate::failure::Failure;

/// Values of the variables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Variables {
    /// The port for HTTP in place of 5300.
    pub(crate) http_port: Option<u16>,
    /// Notices about variables without effect, shown with the emulator's configuration only.
    pub(crate) notices: Vec<String>,
}

/// Those of the emulator's database.
const DATABASE: [&str; 3] = ["SQL_SERVER", "MSSQL_SA_PASSWORD", "SQL_WAIT_INTERVAL"];

impl Variables {
    /// Reads them; one that is empty counts as not set.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let set = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let http_port = match set("EMULATOR_HTTP_PORT") {
            None => None,
            Some(text) => Some(text.trim().parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                Failure::misuse(format_args!("`EMULATOR_HTTP_PORT` is '{text}', expected a port, 1 to 65535"))
            })?),
        };
        let ignored = DATABASE.into_iter().filter(|name| set(name).is_some());
        let notices = ignored.map(|name| format!("`{name}` is ignored: the broker needs no SQL Server"));
        Ok(Self { http_port, notices: notices.collect() })
    }
}

#[cfg(test)]
mod tests;
