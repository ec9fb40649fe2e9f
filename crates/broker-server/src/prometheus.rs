//! A picture of the broker as text that Prometheus reads. Names and labels are part of what the broker promises:
//! `docs/features/metrics.md` lists them.
//!
//! Invariant: what is shown depends on the picture alone; each name is shown once, with all its samples together.

mod entities;
mod namespaces;

pub(crate) use namespaces::ShownNamespace;

use std::{fmt, sync::Arc};

use broker_core::{EntityKind, EntityReport, Timestamp};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{
    metrics::{ByShard, Label, Metrics},
    node_driver::NodeView,
    process_memory::resident_bytes,
};

/// All that one scrape shows.
#[derive(Debug)]
pub(crate) struct MetricsSnapshot {
    pub(crate) now: Timestamp,
    pub(crate) metrics: Arc<Metrics>,
    /// Connections of any protocol.
    pub(crate) sockets: usize,
    /// Bytes that the process uses, where the system tells them, and its limit, where it has one.
    pub(crate) memory: (Option<u64>, Option<u64>),
    /// Expiry of the TLS certificate, in seconds since 1970; `None` without TLS.
    pub(crate) certificate_expires_at: Option<u64>,
    /// The shards, by number; `None` for one that recovers.
    pub(crate) shards: Vec<Option<NodeView>>,
    /// The whole broker is shown, and not some of its namespaces alone.
    pub(crate) is_whole: bool,
    pub(crate) namespaces: Vec<ShownNamespace>,
    pub(crate) entities: Vec<ShownEntity>,
    /// False when there are more entities than may be shown.
    pub(crate) all_shown: bool,
}

/// Metrics of one entity.
#[derive(Debug)]
pub(crate) struct ShownEntity {
    namespace: Arc<str>,
    pub(crate) name: Box<str>,
    kind: &'static str,
    report: Figures,
}

/// The numbers of one entity.
#[derive(Debug)]
struct Figures {
    states: [(&'static str, u64); 6],
    counters: [u64; 7],
    bytes: u64,
    oldest: Option<Timestamp>,
    held_since: Option<Timestamp>,
}

/// Counters of an entity, in the order of [`Figures::counters`].
const COUNTERS: [(&str, &str); 7] = [
    ("incoming_messages", "Messages that arrived: sent, forwarded, or copied from a topic"),
    ("outgoing_messages", "Messages handed out, each time again; of a topic, the copies made"),
    ("completed_messages", "Messages completed, or received and deleted"),
    ("failed_deliveries", "Deliveries that were abandoned or whose lock ran out"),
    ("late_completions", "Completions with settled=true that came after their lock was lost"),
    ("expired_messages", "Messages whose time to live was over"),
    ("dead_lettered_messages", "Messages that arrived among the dead letters"),
];

impl ShownEntity {
    /// Metrics of an entity from the core's report.
    pub(crate) fn new(namespace: &Arc<str>, report: EntityReport) -> Self {
        let activity = report.activity;
        let kind = match report.kind {
            EntityKind::Queue => "queue",
            EntityKind::Topic => "topic",
            EntityKind::Subscription => "subscription",
        };
        let figures = Figures {
            states: [
                ("active", report.active_and_deferred.saturating_sub(activity.deferred)),
                ("locked", activity.locked),
                ("scheduled", report.scheduled),
                ("deferred", activity.deferred),
                ("dead_letter", report.dead_letter),
                ("transfer_dead_letter", report.transfer_dead_letter),
            ],
            counters: [
                activity.incoming,
                activity.outgoing,
                activity.completed,
                activity.failed,
                activity.late_completions,
                activity.expired,
                activity.dead_lettered,
            ],
            bytes: report.bytes,
            oldest: activity.oldest,
            held_since: activity.held_since,
        };
        Self { namespace: Arc::clone(namespace), name: report.name, kind, report: figures }
    }
}

/// The whole text, in pieces that follow each other.
pub(crate) fn render(snapshot: MetricsSnapshot) -> Vec<String> {
    let mut registry = Registry::with_prefix("ferrybus");
    let metrics = Arc::clone(&snapshot.metrics);
    let (seconds, bytes) = (|| Some(Unit::Seconds), || Some(Unit::Bytes));
    let mut histogram = |name, help, unit: Option<Unit>, histogram: &ByShard| match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, histogram.clone()),
        None => registry.register(name, help, histogram.clone()),
    };
    let waiting =
        "Time that the first of what waited had to wait for its turn with the core, once for each turn";
    histogram("core_queue_time", waiting, seconds(), &metrics.queue_time);
    histogram(
        "journal_write_time",
        "Time of one write of the journal, with its sync",
        seconds(),
        &metrics.journal_write,
    );
    histogram("journal_batch", "Size of one write of the journal", bytes(), &metrics.journal_batch);
    let records = "Records in one write of the journal";
    histogram("journal_batch_records", records, None, &metrics.journal_records);
    let reads = "Time of one read of the journal by the threads that read for deliveries and peeks";
    histogram("journal_read_time", reads, seconds(), &metrics.journal_read);
    let recoveries = "Recoveries of a shard after a failure of the broker";
    registry.register("shard_recoveries", recoveries, metrics.recoveries.clone());
    registry.register("connections", "Open AMQP connections", metrics.open.clone());
    registry.register("connections_opened", "AMQP connections begun", metrics.begun.clone());
    registry.register("connections_refused", "Connections refused", metrics.refused.clone());
    registry.register("logins_refused", "Log-ins that were refused", metrics.logins_refused.clone());
    let left_out = "Refused attempts that were too many for the audit log";
    registry.register("audit_attempts_left_out", left_out, metrics.attempts_left_out.clone());
    registry.register("spans_exported", "Spans that the collector took", metrics.spans_exported.clone());
    registry.register("spans_dropped", "Spans that no collector took", metrics.spans_dropped.clone());
    let mut families = entities::families(&snapshot.entities, snapshot.now);
    families.extend(namespaces::families(&snapshot.namespaces));
    if !snapshot.is_whole {
        families.push("# EOF\n".to_owned());
        return families;
    }
    let mut process = Registry::default();
    process.register_collector(Box::new(Process { started_at: metrics.started_at }));
    registry.register_collector(Box::new(Frame(snapshot)));
    let (mut first, mut last) = (String::new(), String::new());
    let written =
        text::encode_registry(&mut first, &process).and_then(|()| text::encode(&mut last, &registry));
    debug_assert!(written.is_ok(), "a string takes everything");
    [first].into_iter().chain(families).chain([last]).collect()
}

/// Process metrics under their conventional names.
#[derive(Debug)]
struct Process {
    started_at: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "When the process started, in seconds since 1970";
        gauge(&mut encoder, "process_start_time", help, Some(&Unit::Seconds), self.started_at)?;
        match resident_bytes() {
            Ok(bytes) => {
                let name = "process_resident_memory";
                gauge(&mut encoder, name, "Memory in use", Some(&Unit::Bytes), bytes)
            }
            Err(_) => Ok(()),
        }
    }
}

/// Metrics that are read at the time of the scrape.
#[derive(Debug)]
struct Frame(MetricsSnapshot);

impl Collector for Frame {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the scrape shows fewer entities than there are";
        gauge(&mut encoder, "entities_left_out", help, None, u64::from(!self.0.all_shown))?;
        self.recovering(&mut encoder)?;
        self.journal(&mut encoder)?;
        self.memory(&mut encoder)?;
        self.server(&mut encoder)
    }
}

impl Frame {
    fn recovering(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether a shard recovers from a failure of the broker";
        let mut metric = encoder.encode_descriptor("shard_recovering", help, None, MetricType::Gauge)?;
        for (number, shard) in self.0.shards.iter().enumerate() {
            let recovers = u64::from(shard.is_none());
            ConstGauge::new(recovers).encode(metric.encode_family(&[("shard", number)])?)?;
        }
        Ok(())
    }

    fn journal(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let bytes = Some(&Unit::Bytes);
        let shards = &self.0.shards;
        let mut gauge = |name, help, unit: Option<&Unit>, figure: fn(&NodeView) -> Option<u64>| {
            let figure = |shard: &Option<NodeView>| shard.as_ref().and_then(figure);
            if shards.iter().all(|shard| figure(shard).is_none()) {
                return Ok(());
            }
            let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (number, figure) in shards.iter().map(figure).enumerate() {
                if let Some(figure) = figure {
                    ConstGauge::new(figure).encode(metric.encode_family(&[("shard", number)])?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        gauge("journal_segments", "Segments in use", None, |node| Some(node.journal.segments))?;
        gauge("journal_spare_segments", "Segments kept ready", None, |node| Some(node.journal.spares))?;
        gauge("journal_used", "Bytes of the segments in use", bytes, |node| Some(node.journal.used_bytes))?;
        let live = "Bytes of records that are still needed";
        gauge("journal_live", live, bytes, |node| Some(node.journal.live_bytes))?;
        let cache = "Bytes of recent records in memory";
        gauge("journal_cache", cache, bytes, |node| Some(node.journal.cache_bytes))?;
        let unwritten = "Bytes of records that are not durable yet";
        gauge("journal_unwritten", unwritten, bytes, |node| Some(node.journal.unwritten_bytes))?;
        let waiting = "Reads from the disk for deliveries that are not done";
        gauge("journal_reads_waiting", waiting, None, |node| Some(node.journal.reads_waiting))?;
        gauge("disk_free", "Free bytes of the journal's disk", bytes, |node| node.journal.free_bytes)?;
        let full = "Whether sends are refused for want of disk space";
        gauge("disk_full", full, None, |node| Some(node.storage_full.into()))?;
        let stopped = "Whether space is not reclaimed any more";
        gauge("journal_cleaning_stopped", stopped, None, |node| Some(node.compaction_stopped.into()))?;
        let mut counter = |name, help, figure: fn(&NodeView) -> u64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (number, shard) in shards.iter().enumerate() {
                if let Some(node) = shard {
                    ConstCounter::new(figure(node)).encode(metric.encode_family(&[("shard", number)])?)?;
                }
            }
            Ok::<(), fmt::Error>(())
        };
        counter("journal_writes", "Writes of the journal", |node| node.journal.writes)?;
        counter("journal_syncs", "Writes of the journal with a sync", |node| node.journal.syncs)?;
        let reads = "Records that had to be read back from the disk";
        counter("journal_disk_reads", reads, |node| node.journal.disk_reads)?;
        counter("journal_segments_freed", "Segments given up", |node| node.journal.segments_freed)
    }

    fn memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (used, limit) = self.0.memory;
        let bytes = Some(&Unit::Bytes);
        if let Some(used) = used {
            gauge(encoder, "memory_used", "Memory of the process, as the limit counts it", bytes, used)?;
        }
        if let Some(limit) = limit {
            let help = "Memory beyond which sends and new entities are refused";
            gauge(encoder, "memory_limit", help, bytes, limit)?;
        }
        let full = u64::from(self.0.shards.iter().flatten().any(|shard| shard.memory_full));
        let help = "Whether sends and new entities are refused for want of memory";
        gauge(encoder, "memory_full", help, None, full)
    }

    fn server(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Sockets that are open, of any protocol";
        gauge(encoder, "sockets", help, None, self.0.sockets as u64)?;
        if let Some(expires_at) = self.0.certificate_expires_at {
            let (name, help) = (
                "tls_certificate_expiry_timestamp",
                "When the TLS certificate expires, in seconds since 1970",
            );
            gauge(encoder, name, help, Some(&Unit::Seconds), expires_at)?;
        }
        let version: [Label; 1] = [("version", env!("CARGO_PKG_VERSION"))];
        let mut metric = encoder.encode_descriptor("build", "What is running", None, MetricType::Info)?;
        metric.encode_info(&version)
    }
}

fn gauge<N>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: N,
) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    let metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

#[cfg(test)]
mod tests;
