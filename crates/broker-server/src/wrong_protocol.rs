//! Clients that speak another protocol than their port: the commonest mistakes of a first attempt, each with the way out.
//!
//! Invariant: at most one line a minute for each address and mistake, and a table of bounded size; lines that it has no
//! room for are counted.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::warn;

/// A mistake of a client.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Mistake {
    /// TLS on a broker without a certificate.
    TlsOnPlainPort,
    /// No TLS on a port that takes nothing else.
    PlainOnTlsPort,
    /// The older protocol of the same name.
    Amqp091,
    /// A server name in the hello of TLS that is no host name, which rustls refuses (decision 41).
    ServerName,
}

/// The addresses that were told of in the last minute.
#[derive(Debug, Default)]
pub(crate) struct WrongProtocols(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    logged: BTreeMap<(IpAddr, Mistake), Instant>,
    /// Since the last line.
    left_out: u64,
}

impl WrongProtocols {
    /// Logs the mistake of the client at `from`, unless that was done in the last minute.
    pub(crate) fn note(&self, now: Instant, from: SocketAddr, mistake: Mistake) {
        let admitted = self.0.lock().unwrap_or_else(PoisonError::into_inner).admit(now, from.ip(), mistake);
        let Some(others) = admitted else { return };
        match mistake {
            Mistake::TlsOnPlainPort => warn!(
                %from,
                others,
                "the client speaks TLS, this port is plain: configure a certificate, or add UseDevelopmentEmulator=true to \
                 the client's connection string"
            ),
            Mistake::PlainOnTlsPort => warn!(
                %from,
                others,
                "the client does not speak TLS, this port takes nothing else: have the client use TLS, or a port of `listen`"
            ),
            Mistake::Amqp091 => warn!(
                %from,
                others,
                "the client speaks AMQP 0-9-1 (RabbitMQ's older protocol); this broker speaks AMQP 1.0: use an AMQP 1.0 client"
            ),
            Mistake::ServerName => warn!(
                %from,
                others,
                "the client's TLS server name is no host name, perhaps it has a port: in Go set `ServerName` of `tls.Config`"
            ),
        }
    }
}

impl Table {
    /// Whether a line is due; with it the number of those that were left out before.
    fn admit(&mut self, now: Instant, address: IpAddr, mistake: Mistake) -> Option<u64> {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < MINUTE;
        let is_known = self.logged.get(&(address, mistake)).is_some_and(is_recent);
        if !is_known && self.logged.len() >= ADDRESSES_MAX {
            self.logged.retain(|_, at| is_recent(at));
        }
        if is_known || self.logged.len() >= ADDRESSES_MAX {
            self.left_out += 1;
            return None;
        }
        self.logged.insert((address, mistake), now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// The protocol header of AMQP 0-9-1.
pub(crate) const AMQP_0_9_1: [u8; 8] = *b"AMQP\x00\x00\x09\x01";

/// Time between two lines about the same client.
const MINUTE: Duration = Duration::from_secs(60);
/// Entries of the table.
const ADDRESSES_MAX: usize = 1_024;

#[cfg(test)]
mod tests;
