//! Runs one scenario on one broker.
//!
//! Invariant: each scenario starts the broker on an empty folder, so no run inherits another's data.

use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::broker::{Broker, Running};
use crate::limits::Limits;
use crate::load::{self, Extent, Load, Loop, Outcome, Peer};
use crate::process_usage::rss_kb;
use crate::relay::Floor;
use crate::scenario::{Scenario, Work};
use crate::table::thousands;

/// Arguments of the run.
pub(super) struct Bench {
    /// Folder of the brokers' files.
    pub(super) folder: PathBuf,
    /// Runs of each timed scenario; the median is reported.
    pub(super) reps: usize,
    /// Measured seconds of each.
    pub(super) seconds: u64,
}

/// One line of the table.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) title: String,
    pub(super) broker: String,
    pub(super) goal: &'static str,
    /// The figure that the goal is about.
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) higher_is_better: bool,
    /// Broker CPU, microseconds for each message: the same number as seconds for each million.
    pub(super) cpu_us: Option<f64>,
    /// p50, p99, p99.9 in microseconds: of the acknowledgement, or end to end when paced.
    pub(super) latency: Option<[f64; 3]>,
    /// Resident memory after the run.
    pub(super) rss_kb: Option<f64>,
    /// The value against the machine's.
    pub(super) of_limit: Option<String>,
    pub(super) error: Option<String>,
}

/// Time for a broker to come to rest before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(2);
/// Time for a started broker to let a client in.
const OPEN_LIMIT: Duration = Duration::from_secs(60);
/// Messages that a filling sender has unacknowledged.
const FILL_WINDOW: u32 = 500;
const KIB: usize = 1_024;

impl Bench {
    pub(super) fn measure(
        &self,
        scenario: &Scenario,
        broker: &Broker,
        limits: &Limits,
    ) -> Fallible<Vec<Measured>> {
        println!("{}: {} …", scenario.name, broker.name);
        match scenario.work {
            Work::Throughput { .. } => self.throughput(scenario, broker, limits),
            Work::Paced { rate } => self.paced(scenario, broker, limits, rate),
            Work::Fill { messages } => self.fill(scenario, broker, messages),
            Work::Idle { connections } => self.idle(scenario, broker, connections),
            Work::Startup => self.startup(scenario, broker),
        }
    }

    fn throughput(&self, scenario: &Scenario, broker: &Broker, limits: &Limits) -> Fallible<Vec<Measured>> {
        let Work::Throughput { connections, size, window } = scenario.work else { return Ok(Vec::new()) };
        // The rate of the slower side, without an ever-growing queue.
        let max_backlog = Some(if size > LARGE_BODY { 500 } else { 20_000 });
        let load = Load {
            senders: connections,
            receivers: connections,
            queues: connections,
            size: usize::try_from(size)?,
            durable: scenario.durable,
            pace: Loop::Closed { window, max_backlog },
            credit: if scenario.durable { window.clamp(100, 1_000) } else { window },
            starts_behind: 0,
            nice: 0,
            extent: self.extent(),
        };
        let limit = limits.messages(scenario);
        self.repeated(scenario, broker, &load, |outcome| {
            let rate = outcome.rate();
            Ok(Measured {
                value: rate,
                unit: "msgs/s",
                higher_is_better: true,
                latency: outcome.acknowledgement,
                of_limit: limit.map(|limit| format!("{:.2}", rate / limit)),
                ..Measured::of(scenario, broker)
            })
        })
    }

    fn paced(
        &self,
        scenario: &Scenario,
        broker: &Broker,
        limits: &Limits,
        rate: u32,
    ) -> Fallible<Vec<Measured>> {
        let load = Load {
            senders: 1,
            receivers: 1,
            queues: 1,
            size: KIB,
            durable: scenario.durable,
            pace: Loop::Open { rate },
            credit: 1_000,
            starts_behind: 0,
            nice: 0,
            extent: self.extent(),
        };
        let sync = scenario.durable.then_some(limits.sync_us);
        let relay = if scenario.durable { limits.durable_relay } else { limits.relay };
        self.repeated(scenario, broker, &load, |outcome| {
            let latency = outcome.end_to_end.ok_or("no message arrived")?;
            let [_, p99, _] = latency;
            Ok(Measured {
                value: p99,
                unit: "µs",
                latency: Some(latency),
                of_limit: Some(of_limit(p99, sync, relay)),
                ..Measured::of(scenario, broker)
            })
        })
    }

    fn extent(&self) -> Extent {
        Extent::Time { warm_up: WARM_UP, measured: Duration::from_secs(self.seconds) }
    }

    /// Several runs on one start; the one with the median value stands for all.
    fn repeated(
        &self,
        scenario: &Scenario,
        broker: &Broker,
        load: &Load,
        read: impl Fn(&Outcome) -> Fallible<Measured>,
    ) -> Fallible<Vec<Measured>> {
        let running = self.start_clean(scenario, broker)?;
        let mut rows = Vec::new();
        for _ in 0..self.reps.max(1) {
            let outcome = load.run(&peer(broker, &running))?;
            let row = read(&outcome)?;
            rows.push(Measured { cpu_us: outcome.broker_cpu_us, rss_kb: outcome.rss_kb, ..row });
        }
        running.stop();
        rows.sort_by(|one, other| one.value.total_cmp(&other.value));
        let median = rows.len() / 2;
        Ok(rows.into_iter().skip(median).take(1).collect())
    }

    /// Fill, memory for each message, SIGKILL, and the time to the first delivery.
    fn fill(&self, scenario: &Scenario, broker: &Broker, messages: u64) -> Fallible<Vec<Measured>> {
        let running = self.start_clean(scenario, broker)?;
        let half = messages / 2;
        let (first_s, half_kb) = Self::fill_part(broker, &running, half)?;
        let (second_s, full_kb) = Self::fill_part(broker, &running, messages - half)?;
        running.kill();

        let start = Instant::now();
        let running = self.start(scenario, broker)?;
        let first = Load { senders: 0, receivers: 1, credit: 1, extent: Extent::Messages(1), ..filling(0) };
        first.run(&peer(broker, &running))?;
        let back_s = start.elapsed().as_secs_f64();
        running.stop();

        let row = |title: &str, value: f64, unit: &'static str| Measured {
            title: format!("{}{title}", scenario.title),
            value,
            unit,
            rss_kb: Some(full_kb),
            ..Measured::of(scenario, broker)
        };
        // The second half only: by then the body cache is full, and what still grows is the queue itself.
        #[expect(clippy::cast_precision_loss, reason = "a million is far below 2^52")]
        let bytes_per_message = (full_kb - half_kb) * 1024.0 / (messages - half) as f64;
        Ok(vec![
            row("", first_s + second_s, "s"),
            row(", SIGKILL, restart to first delivery", back_s, "s"),
            row(", memory for each message of the second half", bytes_per_message.max(0.0), "B"),
        ])
    }

    /// Seconds of the load and resident memory after it.
    fn fill_part(broker: &Broker, running: &Running, messages: u64) -> Fallible<(f64, f64)> {
        let outcome = filling(messages).run(&peer(broker, running))?;
        thread::sleep(SETTLE);
        Ok((outcome.seconds, rss_kb(running.pid).ok_or("no resident memory to read")?))
    }

    fn idle(&self, scenario: &Scenario, broker: &Broker, connections: u32) -> Fallible<Vec<Measured>> {
        let running = self.start_clean(scenario, broker)?;
        thread::sleep(SETTLE);
        let before = rss_kb(running.pid).ok_or("no resident memory to read")?;
        let held = load::idle(&peer(broker, &running), connections)?;
        thread::sleep(SETTLE);
        let after = rss_kb(running.pid).ok_or("no resident memory to read")?;
        drop(held);
        let row = Measured {
            value: (after - before) / f64::from(connections.max(1)),
            unit: "KB",
            rss_kb: Some(after),
            ..Measured::of(scenario, broker)
        };
        running.stop();
        Ok(vec![row])
    }

    fn startup(&self, scenario: &Scenario, broker: &Broker) -> Fallible<Vec<Measured>> {
        let mut times = Vec::new();
        let mut rss = None;
        for _ in 0..self.reps.max(1) {
            let running = self.start_clean(scenario, broker)?;
            times.push(running.started_in.as_secs_f64() * 1e3);
            thread::sleep(SETTLE);
            rss = rss_kb(running.pid);
            running.stop();
        }
        times.sort_by(f64::total_cmp);
        let value = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(vec![Measured { value, unit: "ms", rss_kb: rss, ..Measured::of(scenario, broker) }])
    }

    fn start_clean(&self, scenario: &Scenario, broker: &Broker) -> Fallible<Running> {
        let folder = self.folder_of(broker);
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
        self.start(scenario, broker)
    }

    /// A broker may answer the protocol header before it lets anyone in: a start is over when a session has begun.
    fn start(&self, scenario: &Scenario, broker: &Broker) -> Fallible<Running> {
        let running = broker.start(&self.folder_of(broker), scenario.durable)?;
        let begin = Instant::now();
        loop {
            match load::connect(&peer(broker, &running)) {
                Ok(_) => return Ok(running),
                Err(error) if begin.elapsed() > OPEN_LIMIT => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn folder_of(&self, broker: &Broker) -> PathBuf {
        self.folder.join(&broker.name)
    }
}

impl Measured {
    fn of(scenario: &Scenario, broker: &Broker) -> Self {
        let (title, broker) = (scenario.title.to_owned(), broker.name.clone());
        Self { title, broker, goal: scenario.goal, ..Self::default() }
    }

    pub(super) fn broken(scenario: &Scenario, broker: &str, error: &str) -> Self {
        let (title, broker) = (scenario.title.to_owned(), broker.to_owned());
        Self { title, broker, goal: scenario.goal, error: Some(error.to_owned()), ..Self::default() }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn result(&self) -> String {
        if let Some(error) = &self.error {
            return format!("no result: {error}");
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "figures are small and not negative"
        )]
        let number = if self.value >= 1_000.0 { thousands(self.value as u64) } else { short(self.value) };
        format!("{number} {}", self.unit)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "  {}: {}: {}", self.broker, self.title, self.result())?;
        if let Some(cpu) = self.cpu_us {
            write!(out, ", {cpu:.2} µs CPU")?;
        }
        Ok(())
    }
}

/// Two digits where they say something.
pub(super) fn short(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Fills one queue.
fn filling(messages: u64) -> Load {
    Load {
        senders: 4,
        receivers: 0,
        queues: 1,
        size: KIB,
        durable: true,
        pace: Loop::Closed { window: FILL_WINDOW, max_backlog: None },
        credit: 0,
        starts_behind: 0,
        nice: 0,
        extent: Extent::Messages(messages),
    }
}

fn peer(broker: &Broker, running: &Running) -> Peer {
    let user = broker.user.map(|(user, password)| (user.to_owned(), password.to_owned()));
    Peer { port: broker.port, address: broker.address.clone(), user, namespace: None, pid: Some(running.pid) }
}

/// A 99th percentile beside what the machine alone takes.
fn of_limit(p99: f64, sync: Option<f64>, relay: Floor) -> String {
    let syncs = sync.map(|sync| format!("{:.1} fdatasync, ", p99 / sync)).unwrap_or_default();
    format!("{syncs}{:.1} × the relay's", p99 / relay.p99)
}

/// Bodies above this many bytes get a short backlog: a long one would measure reading back from disk.
const LARGE_BODY: u32 = 10 * 1024;
