//! Figures of the namespaces, and their rows.
//!
//! Invariant: a ratio is that of two measurements of one run.

use super::disk::DiskTimes;
use super::namespaces::{FULL_SIZE, MEASURED, MeasuredNamespace};
use crate::Fallible;
use crate::figures::median;
use crate::load::{Counts, Outcome};
use crate::process_usage::Usage;

pub(super) const HEADER: [&str; 7] = [
    "sends in a namespace of",
    "p50 µs alone, beside",
    "p99 µs alone, beside",
    "max µs alone, beside",
    "sent late, p99 µs alone, beside",
    "p99 ratio",
    "goal",
];

pub(super) const LOAD_HEADER: [&str; 7] = [
    "the full namespace, beside a namespace of",
    "in msgs/s",
    "out msgs/s",
    "in, out MB/s",
    "CPU of the broker, cores",
    "of its generator",
    "waited for a core: broker, its generator",
];

/// Times of the sends in a measured namespace, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sends {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// 99th percentile of the generator's own delay before the send.
    pub(super) delay: f64,
}

impl Sends {
    pub(super) fn of(outcome: &Outcome) -> Fallible<Self> {
        let [p50, p99, _] = outcome.acknowledgement.ok_or("no send was answered")?;
        let [_, delay, _] = outcome.delay.ok_or("nothing was sent")?;
        Ok(Self { p50, p99, max: outcome.slowest.ok_or("no send was answered")?, delay })
    }
}

/// The full namespace while another one was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullLoad {
    pub(super) seconds: f64,
    pub(super) counts: Counts,
    pub(super) broker: Usage,
    pub(super) generators: Usage,
}

impl FullLoad {
    #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in a run")]
    fn rate(&self, messages: u64) -> f64 {
        messages as f64 / self.seconds
    }

    /// Bytes a second that were stored.
    #[expect(clippy::cast_precision_loss, reason = "a message is small")]
    pub(super) fn bytes_sent(&self, size: usize) -> f64 {
        self.rate(self.counts.acknowledged) * size as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "a message is small")]
    pub(super) fn bytes_received(&self, size: usize) -> f64 {
        self.rate(self.counts.received) * size as f64
    }
}

/// One measurement beside the load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BesideLoad {
    pub(super) sends: Sends,
    pub(super) full: FullLoad,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurement {
    /// Alone and beside the load, in the order of [`MEASURED`].
    pub(super) pairs: Vec<(Sends, BesideLoad)>,
    /// The disk alone and beside writes at the rate of the load.
    pub(super) disk: (DiskTimes, DiskTimes),
}

impl Measurement {
    fn pair(&self, index: usize) -> Option<&(Sends, BesideLoad)> {
        self.pairs.get(index)
    }
}

/// The rows of the sends: medians, and the disk below.
pub(super) fn rows(all: &[Measurement]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> =
        MEASURED.iter().enumerate().map(|(index, namespace)| sends_row(all, index, namespace)).collect();
    rows.push(disk_row(all));
    rows
}

fn sends_row(all: &[Measurement], index: usize, namespace: &MeasuredNamespace) -> Vec<String> {
    let pairs = || all.iter().filter_map(|one| one.pair(index));
    let of = |figure: fn(&Sends) -> f64| {
        let alone = median(pairs().map(|(alone, _)| figure(alone)));
        let beside = median(pairs().map(|(_, beside)| figure(&beside.sends)));
        format!("{alone:.0}, {beside:.0}")
    };
    let ratio = median(pairs().map(|(alone, beside)| beside.sends.p99 / alone.p99));
    let missed = if ratio <= namespace.goal { "" } else { ": missed" };
    vec![
        namespace.place.to_owned(),
        of(|sends| sends.p50),
        of(|sends| sends.p99),
        of(|sends| sends.max),
        of(|sends| sends.delay),
        format!("{ratio:.2}"),
        format!("≤ {}{missed}", namespace.goal),
    ]
}

fn disk_row(all: &[Measurement]) -> Vec<String> {
    let of = |figure: fn(&DiskTimes) -> f64| {
        let alone = median(all.iter().map(|one| figure(&one.disk.0)));
        let beside = median(all.iter().map(|one| figure(&one.disk.1)));
        format!("{alone:.0}, {beside:.0}")
    };
    let written = median(all.iter().map(|one| one.disk.1.beside.written)) / 1e6;
    let read = median(all.iter().map(|one| one.disk.1.beside.read)) / 1e6;
    let ratio = median(all.iter().map(|one| one.disk.1.p99 / one.disk.0.p99));
    vec![
        format!(
            "the disk: write + fdatasync of 1 KiB, beside {written:.0} MB/s in blocks of 64 KiB and {read:.0} MB/s that are read"
        ),
        of(|times| times.p50),
        of(|times| times.p99),
        of(|times| times.max),
        String::new(),
        format!("{ratio:.2}"),
        String::new(),
    ]
}

/// The rows of the full namespace: medians.
pub(super) fn load_rows(all: &[Measurement]) -> Vec<Vec<String>> {
    MEASURED.iter().enumerate().map(|(index, namespace)| load_row(all, index, namespace)).collect()
}

fn load_row(all: &[Measurement], index: usize, namespace: &MeasuredNamespace) -> Vec<String> {
    let of = |figure: fn(&FullLoad) -> f64| {
        median(all.iter().filter_map(|one| one.pair(index)).map(|(_, beside)| figure(&beside.full)))
    };
    vec![
        namespace.place.to_owned(),
        format!("{:.0}", of(|full| full.rate(full.counts.acknowledged))),
        format!("{:.0}", of(|full| full.rate(full.counts.received))),
        format!(
            "{:.0}, {:.0}",
            of(|full| full.bytes_sent(FULL_SIZE)) / 1e6,
            of(|full| full.bytes_received(FULL_SIZE)) / 1e6
        ),
        format!("{:.2}", of(|full| full.broker.cpu.as_secs_f64() / full.seconds)),
        format!("{:.2}", of(|full| full.generators.cpu.as_secs_f64() / full.seconds)),
        format!(
            "{:.2}, {:.2}",
            of(|full| full.broker.waited.as_secs_f64() / full.seconds),
            of(|full| full.generators.waited.as_secs_f64() / full.seconds)
        ),
    ]
}
