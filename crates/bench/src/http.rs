//! A connection to the broker's HTTP side that is kept, for those who are measured and those who look.
//!
//! Invariant: every wait ends, and an answer is as long as it says or an error.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::Fallible;

/// Name and text of the development key.
const LOGIN: &str = "Basic Um9vdE1hbmFnZVNoYXJlZEFjY2Vzc0tleTpTQVNfS0VZX1ZBTFVF";
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest answer, in bytes: that to a scrape.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// One connection that is kept.
pub(super) struct Visitor(BufReader<TcpStream>);

impl Visitor {
    pub(super) fn connect(port: u16) -> Fallible<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::with_capacity(64 << 10, stream)))
    }

    /// The body of the answer, which must be 200.
    pub(super) fn get(&mut self, path: &str) -> Fallible<Vec<u8>> {
        self.ask("GET", path, "", "200")
    }

    /// Asks for something to be made; the answer must be 201.
    pub(super) fn create(&mut self, path: &str, body: &str) -> Fallible<Vec<u8>> {
        self.ask("PUT", path, body, "201")
    }

    fn ask(&mut self, method: &str, path: &str, body: &str, status: &str) -> Fallible<Vec<u8>> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {LOGIN}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        if line.split(' ').nth(1) != Some(status) {
            return Err(format!("`{path}` was answered `{}`", line.trim_end()).into());
        }
        let mut length = None;
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err("the broker hung up".into());
            }
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<u64>()?);
            }
        }
        let length = length.filter(|length| *length <= BODY_BYTES_MAX).ok_or("an answer without a length")?;
        let mut body = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut body)?;
        Ok(body)
    }
}
