//! Spans on their way to a collector: OTLP over HTTP, in its JSON form.
//!
//! Invariant: no message waits for the collector: the queue of spans is bounded, and spans that do not fit are counted
//! and dropped.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use amqp_gateway::Span;
use bytes::Bytes;
use hyper::{
    Request,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tracing::warn;

use crate::{
    metrics::Metrics,
    remote::{Remote, RemoteError},
    shutdown::{Shutdown, ordered},
};

mod encoding;

/// Spans that wait for the collector.
const WAITING_MAX: usize = 4_096;
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// Longest wait of spans for a larger batch.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Destination of spans.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TelemetryConfig {
    /// `http://host:port/v1/traces`, or `https`.
    pub endpoint: String,
    /// Headers that the collector wants, such as a key.
    pub headers: Vec<(String, String)>,
    /// Authorities to trust for `https`, in a PEM file.
    pub authorities: Option<PathBuf>,
    /// `service.name` of the spans.
    pub service_name: String,
}

/// The way to the exporter.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    waiting: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

impl Spans {
    /// Takes spans that are over, and notes how many were lost before.
    pub(crate) fn take(&self, (spans, lost): (Vec<Span>, u64)) {
        if lost > 0 {
            self.metrics.spans_dropped.inc_by(lost);
        }
        for span in spans {
            if self.waiting.try_send(span).is_err() {
                self.metrics.spans_dropped.inc();
            }
        }
    }
}

/// Brings spans to the collector.
pub(crate) struct Exporter {
    waiting: mpsc::Receiver<Span>,
    metrics: Arc<Metrics>,
    service_name: String,
    collector: Remote,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The operator was told that the collector cannot be reached.
    is_down: bool,
}

impl Exporter {
    /// Checks that the collector's address can be used.
    pub(crate) fn new(
        config: &TelemetryConfig,
        metrics: &Arc<Metrics>,
    ) -> Result<(Spans, Self), RemoteError> {
        let collector = Remote::new(&config.endpoint, config.authorities.as_deref())?;
        let header = |(name, value): &(String, String)| {
            let name = HeaderName::try_from(name.as_str()).ok()?;
            let mut value = HeaderValue::try_from(value.as_str()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        };
        let headers = config.headers.iter().map(header).collect::<Option<Vec<_>>>();
        let headers =
            headers.ok_or_else(|| RemoteError::url(&config.endpoint, "a header for it cannot be sent"))?;
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        let spans = Spans { waiting: sender, metrics: Arc::clone(metrics) };
        let service_name = config.service_name.clone();
        let metrics = Arc::clone(metrics);
        Ok((spans, Self { waiting, metrics, service_name, collector, headers, is_down: false }))
    }

    /// Exports until the server stops, then what is left.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<Shutdown>) {
        let mut batch = Vec::new();
        loop {
            let count = tokio::select! {
                count = self.waiting.recv_many(&mut batch, BATCH_MAX) => count,
                _ = ordered(&mut stop) => break,
            };
            if count == 0 {
                break;
            }
            tokio::select! {
                () = self.fill(&mut batch) => {}
                _ = ordered(&mut stop) => {}
            }
            self.export(std::mem::take(&mut batch)).await;
        }
        self.export_rest().await;
    }

    /// Brings what is left, as long as the collector takes it.
    async fn export_rest(&mut self) {
        let mut goes_on = true;
        loop {
            let rest: Vec<Span> =
                std::iter::from_fn(|| self.waiting.try_recv().ok()).take(BATCH_MAX).collect();
            if rest.is_empty() {
                return;
            }
            if goes_on {
                goes_on = self.export(rest).await;
            } else {
                self.metrics.spans_dropped.inc_by(rest.len() as u64);
            }
        }
    }

    /// Waits a little for more.
    async fn fill(&mut self, batch: &mut Vec<Span>) {
        let filling = async {
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                if self.waiting.recv_many(batch, room).await == 0 {
                    break;
                }
            }
        };
        // The batch is sent with the spans that have come by then.
        drop(timeout(PAUSE, filling).await);
    }

    /// Whether the collector has taken them.
    async fn export(&mut self, batch: Vec<Span>) -> bool {
        let body = encoding::request(&self.service_name, &batch).to_string();
        let count = batch.len() as u64;
        let sent = match timeout(PATIENCE, self.send(body)).await {
            Ok(sent) => sent,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        match sent {
            Ok(()) => {
                self.is_down = false;
                self.metrics.spans_exported.inc_by(count);
                true
            }
            Err(error) => {
                self.metrics.spans_dropped.inc_by(count);
                if !std::mem::replace(&mut self.is_down, true) {
                    warn!(url = %self.collector.url(), %error, "the collector of spans does not take them; they are dropped");
                }
                false
            }
        }
    }

    async fn send(&self, body: String) -> io::Result<()> {
        let mut request = Request::post("/").header(CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        // The collector has taken them: the rest of its answer is ignored.
        self.collector.exchange(request, Bytes::from(body), ANSWER_BYTES_MAX).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
