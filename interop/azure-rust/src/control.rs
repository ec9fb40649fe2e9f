//! Orders to the broker that no client of Service Bus can give: its test clock and its faults.
//!
//! Blocking on purpose: while an order is under way the client on the only thread does nothing.

use std::env::{VarError, var};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long the broker may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The HTTP side of the broker.
#[derive(Clone)]
pub struct Control {
    authority: String,
    authorization: String,
}

impl Control {
    pub fn from_environment() -> Result<Self, VarError> {
        Ok(Self { authority: var("FERRYBUS_CONTROL")?, authorization: var("FERRYBUS_AUTHORIZATION")? })
    }

    /// Moves the broker's time; when this returns, what became due is done.
    pub fn advance_clock(&self, by: Duration) -> std::io::Result<()> {
        self.post("/$ferrybus/clock/advance", &format!(r#"{{"by_ms":{}}}"#, by.as_millis()))
    }

    /// Has something go wrong with `entity`, once.
    pub fn order_fault(&self, kind: &str, entity: &str) -> std::io::Result<()> {
        self.post("/$ferrybus/faults", &format!(r#"{{"kind":"{kind}","entity":"{entity}","count":1}}"#))
    }

    fn post(&self, path: &str, body: &str) -> std::io::Result<()> {
        let mut socket = TcpStream::connect(&self.authority)?;
        socket.set_read_timeout(Some(ANSWER_WAIT))?;
        let (host, login, length) = (&self.authority, &self.authorization, body.len());
        write!(
            socket,
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {login}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        if answer.starts_with("HTTP/1.1 20") { Ok(()) } else { Err(std::io::Error::other(answer)) }
    }
}
