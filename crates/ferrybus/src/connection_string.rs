//! Connection strings: `Endpoint=sb://host;SharedAccessKeyName=…;SharedAccessKey=…`.
//!
//! Invariant: the key never shows in a message or a `Debug` text; what is not understood is refused.

use std::fmt;

use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};

use crate::{failure::Failure, suggest::suggest};

/// Address of the broker, and the credentials.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ConnectionString {
    /// Host name or address, without brackets.
    pub(crate) host: String,
    /// TCP port.
    pub(crate) port: u16,
    /// Encrypt.
    pub(crate) tls: bool,
    /// Credentials.
    pub(crate) login: Login,
    /// Name of the only entity that it opens.
    pub(crate) entity: Option<String>,
}

impl ConnectionString {
    /// Another host, and another port if there is one in the text; how to log in and whether to encrypt stay.
    pub(crate) fn set_server(&mut self, server: &str) -> Result<(), Failure> {
        let bad = || {
            Failure::misuse(format_args!("`{server}` is no server"))
                .hint("expected `host`, `host:port` or `[address]:port`")
        };
        if server.is_empty() || server.contains(['/', ';', '@']) {
            return Err(bad());
        }
        let (host, port) = split_port(server);
        if let Some(port) = port {
            self.port = port.parse().map_err(|_| bad())?;
        }
        if host.is_empty() {
            return Err(bad());
        }
        self.host = host.into();
        Ok(())
    }
}

/// Credentials.
#[derive(Clone, Eq, PartialEq)]
pub(crate) enum Login {
    /// Sign tokens with this key.
    Key { name: String, key: String },
    /// Show this token.
    Token(String),
    /// Show this password.
    Password { name: String, password: String },
    /// Show nothing.
    Anonymous,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { name, .. } => f.debug_struct("Key").field("name", name).finish_non_exhaustive(),
            Self::Token(_) => f.write_str("Token(…)"),
            Self::Password { name, .. } => {
                f.debug_struct("Password").field("name", name).finish_non_exhaustive()
            }
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

/// The text to paste into an application for a broker on this machine.
pub(crate) fn development(port: u16) -> String {
    let port = if port == PORT { String::new() } else { format!(":{port}") };
    format!(
        "Endpoint=sb://localhost{port};SharedAccessKeyName={DEVELOPMENT_KEY_NAME};\
         SharedAccessKey={DEVELOPMENT_KEY};UseDevelopmentEmulator=true;"
    )
}

impl std::str::FromStr for ConnectionString {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad("a part without `=`"))?;
            let at = KEYS.iter().position(|known| known.eq_ignore_ascii_case(key.trim()));
            let slot = at.and_then(|at| values.get_mut(at)).ok_or_else(|| unknown(key))?;
            if slot.replace(value.trim()).is_some() {
                return Err(bad(format_args!("`{key}` twice")));
            }
        }
        let [endpoint, name, key, token, entity, emulator] = values;
        let emulator = emulator.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let endpoint = endpoint.ok_or_else(|| bad("no `Endpoint`"))?;
        let login = match (name, key, token) {
            (Some(name), Some(key), None) => Login::Key { name: name.into(), key: key.into() },
            (None, None, Some(token)) => Login::Token(token.into()),
            (None, None, None) => Login::Anonymous,
            _ => {
                return Err(bad("only half of a log-in").hint(
                    "expected both `SharedAccessKeyName` and `SharedAccessKey`, or `SharedAccessSignature` alone",
                ));
            }
        };
        let (host, port, tls) = parse_endpoint(endpoint, emulator)?;
        Ok(Self { host, port, tls, login, entity: entity.map(Into::into) })
    }
}

/// `sb://host[:port]/`. As in the SDKs, `sb` means TLS unless the string is for the emulator.
fn parse_endpoint(endpoint: &str, emulator: bool) -> Result<(String, u16, bool), Failure> {
    let bad_endpoint = || {
        bad(format_args!("the endpoint `{endpoint}`"))
            .hint("expected `sb://host`, `sb://host:port`, `amqp://host` or `amqps://host`")
    };
    let (scheme, rest) = endpoint.split_once("://").ok_or_else(bad_endpoint)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "sb" => !emulator,
        "amqps" => true,
        "amqp" => false,
        _ => return Err(bad_endpoint()),
    };
    let authority = rest.trim_end_matches('/');
    if authority.contains('/') {
        return Err(bad_endpoint());
    }
    let (host, port) = split_port(authority);
    if host.is_empty() {
        return Err(bad_endpoint());
    }
    let default = if tls { PORT_TLS } else { PORT };
    let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| bad_endpoint()))?;
    Ok((host.into(), port, tls))
}

/// `host`, `host:port`, `[address]`, `[address]:port`; an IPv6 address stands alone without brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let (host, port) = match authority.rsplit_once(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some((host, port)) if !port.contains(']') && (host.ends_with(']') || !host.contains(':')) => {
            (host, Some(port))
        }
        _ => (authority, None),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

fn bad(what: impl fmt::Display) -> Failure {
    Failure::misuse(format_args!("the connection string has {what}"))
}

fn unknown(key: &str) -> Failure {
    let failure = bad(format_args!("an unknown key `{key}`"));
    match suggest(key, KEYS) {
        Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
        None => failure.hint(format_args!("the keys known here are `{}`", KEYS.join("`, `"))),
    }
}

const KEYS: [&str; 6] = [
    "Endpoint",
    "SharedAccessKeyName",
    "SharedAccessKey",
    "SharedAccessSignature",
    "EntityPath",
    "UseDevelopmentEmulator",
];

const PORT: u16 = 5672;
const PORT_TLS: u16 = 5671;

#[cfg(test)]
mod tests;
