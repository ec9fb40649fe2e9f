//! Metrics that the server measures while it runs; `http/metrics.rs` shows them.
//!
//! Invariant: nothing is decided by a measurement, and taking one neither waits nor grows memory: what there is to
//! count is fixed here.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use prometheus_client::metrics::{
    counter::Counter,
    family::Family,
    gauge::Gauge,
    histogram::{Histogram, exponential_buckets},
};

/// Name and value of one label.
pub(crate) type Label = (&'static str, &'static str);

/// The instruments of one server.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Start of service, in seconds since 1970.
    pub(crate) started_at: f64,
    /// Wait of the first item of each step of a node, in seconds, by shard.
    pub(crate) queue_time: ByShard,
    /// Duration of one write of a journal with its sync, in seconds, by shard.
    pub(crate) journal_write: ByShard,
    /// Size of one write of a journal, in bytes, by shard.
    pub(crate) journal_batch: ByShard,
    /// Number of records in one write of a journal, by shard.
    pub(crate) journal_records: ByShard,
    /// Duration of one read of a journal by a reader thread, in seconds, by shard.
    pub(crate) journal_read: ByShard,
    /// Recoveries of a shard after a panic in it, by shard.
    pub(crate) recoveries: Family<[(&'static str, u16); 1], Counter>,
    /// AMQP connections that are open, by transport and log-in.
    pub(crate) open: Family<[Label; 2], Gauge>,
    /// AMQP connections that were begun, by transport.
    pub(crate) begun: Family<[Label; 1], Counter>,
    /// Connections that were refused, by reason.
    pub(crate) refused: Family<[Label; 1], Counter>,
    /// Log-ins that were refused, by mechanism and reason.
    pub(crate) logins_refused: Family<[Label; 2], Counter>,
    /// Spans that the collector has taken.
    pub(crate) spans_exported: Counter,
    /// Spans that were not made or that no collector took.
    pub(crate) spans_dropped: Counter,
    /// Refused attempts that the audit log does not tell.
    pub(crate) attempts_left_out: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started_at: since_1970.as_secs_f64(),
            queue_time: ByShard::new_with_constructor(queue_times),
            journal_write: ByShard::new_with_constructor(write_times),
            journal_batch: ByShard::new_with_constructor(batch_sizes),
            journal_records: ByShard::new_with_constructor(record_counts),
            journal_read: ByShard::new_with_constructor(write_times),
            recoveries: Family::default(),
            open: Family::default(),
            begun: Family::default(),
            refused: Family::default(),
            logins_refused: Family::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            attempts_left_out: Counter::default(),
        }
    }
}

/// A histogram for each shard.
pub(crate) type ByShard = Family<[(&'static str, u16); 1], Histogram, fn() -> Histogram>;

fn queue_times() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 4.0, 12))
}

fn write_times() -> Histogram {
    Histogram::new(exponential_buckets(2e-5, 2.0, 18))
}

fn batch_sizes() -> Histogram {
    Histogram::new(exponential_buckets(512.0, 4.0, 10))
}

fn record_counts() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 4.0, 10))
}

/// The instruments of one shard.
#[derive(Debug)]
pub(crate) struct ShardMetrics {
    pub(crate) queue_time: Histogram,
    journal_write: Histogram,
    journal_batch: Histogram,
    journal_records: Histogram,
    journal_read: Histogram,
    recoveries: Counter,
}

impl ShardMetrics {
    /// Those of this shard, which `metrics` shows.
    pub(crate) fn of(metrics: &Metrics, shard: u16) -> Self {
        let of = |family: &ByShard| family.get_or_create(&[("shard", shard)]).clone();
        Self {
            queue_time: of(&metrics.queue_time),
            journal_write: of(&metrics.journal_write),
            journal_batch: of(&metrics.journal_batch),
            journal_records: of(&metrics.journal_records),
            journal_read: of(&metrics.journal_read),
            recoveries: metrics.recoveries.get_or_create(&[("shard", shard)]).clone(),
        }
    }

    /// One write of the journal is done.
    #[expect(clippy::cast_precision_loss, reason = "a batch has far less than 2^52 bytes, and fewer records")]
    pub(crate) fn wrote(&self, bytes: u64, records: u64, took: Duration) {
        self.journal_write.observe(took.as_secs_f64());
        self.journal_batch.observe(bytes as f64);
        self.journal_records.observe(records as f64);
    }

    /// The shard has recovered after a panic.
    pub(crate) fn recovered(&self) {
        self.recoveries.inc();
    }

    /// One read of the journal by a reader thread is done.
    pub(crate) fn read(&self, took: Duration) {
        self.journal_read.observe(took.as_secs_f64());
    }
}

impl Default for ShardMetrics {
    fn default() -> Self {
        Self::of(&Metrics::default(), 0)
    }
}

impl Metrics {
    /// A connection was refused.
    pub(crate) fn refuse(&self, reason: &'static str) {
        self.refused.get_or_create(&[("reason", reason)]).inc();
    }

    /// A log-in was refused. Both are of fixed lists.
    pub(crate) fn refuse_login(&self, mechanism: &'static str, reason: &'static str) {
        self.logins_refused.get_or_create(&[("mechanism", mechanism), ("reason", reason)]).inc();
    }
}

/// Transport of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Transport {
    /// TCP.
    Plain,
    Tls,
    /// WebSocket over TCP.
    WebSocket,
    /// WebSocket over TLS.
    WebSocketTls,
}

impl Transport {
    pub(crate) const fn new(tls: bool, web_socket: bool) -> Self {
        match (tls, web_socket) {
            (false, false) => Self::Plain,
            (true, false) => Self::Tls,
            (false, true) => Self::WebSocket,
            (true, true) => Self::WebSocketTls,
        }
    }

    /// As it is shown.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Tls => "tls",
            Self::WebSocket => "websocket",
            Self::WebSocketTls => "websocket_tls",
        }
    }

    /// The protocol that the client speaks, as the log has it.
    pub(crate) const fn protocol(self) -> &'static str {
        match self {
            Self::Plain => "amqp",
            Self::Tls => "amqps",
            Self::WebSocket => "amqp over websocket",
            Self::WebSocketTls => "amqps over websocket",
        }
    }

    const fn label(self) -> Label {
        ("transport", self.name())
    }
}

/// Counts one AMQP connection among the open ones for as long as it lives.
#[derive(Debug)]
pub(crate) struct ConnectionGauge {
    metrics: Arc<Metrics>,
    transport: Transport,
    authentication: &'static str,
    /// Address of the client.
    pub(crate) address: SocketAddr,
}

impl ConnectionGauge {
    /// A connection that has not logged in.
    pub(crate) fn take(metrics: Arc<Metrics>, transport: Transport, address: SocketAddr) -> Self {
        metrics.begun.get_or_create(&[transport.label()]).inc();
        let connection_gauge = Self { metrics, transport, authentication: "none", address };
        connection_gauge.gauge().inc();
        connection_gauge
    }

    /// Records the authentication of the connection so far.
    pub(crate) fn note(&mut self, authentication: &'static str) {
        if self.authentication != authentication {
            self.gauge().dec();
            self.authentication = authentication;
            self.gauge().inc();
        }
    }

    fn gauge(&self) -> Gauge {
        let labels = [self.transport.label(), ("authentication", self.authentication)];
        self.metrics.open.get_or_create_owned(&labels)
    }
}

impl Drop for ConnectionGauge {
    fn drop(&mut self) {
        self.gauge().dec();
    }
}

#[cfg(test)]
mod tests;
