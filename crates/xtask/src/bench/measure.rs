//! Runs one scenario on one broker.
//!
//! Invariant: each scenario starts the broker on an empty folder, so no run inherits another's data.

use std::fmt;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::broker::{Broker, Running};
use super::limits::Limits;
use super::load::{self, Outcome};
use super::relay::Floor;
use super::scenario::{Scenario, Work};
use crate::Fallible;
use crate::table::thousands;

/// What the run was told.
pub(super) struct Bench {
    pub(super) load: PathBuf,
    /// Where brokers keep their files.
    pub(super) folder: PathBuf,
    /// Runs of each timed scenario; the median is reported.
    pub(super) reps: usize,
    /// Measured seconds of each.
    pub(super) seconds: u32,
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
const WARM_UP: &str = "2";

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
        let credit = if scenario.durable { window.clamp(100, 1_000) } else { window };
        let pairs = [
            ("--senders", connections.to_string()),
            ("--receivers", connections.to_string()),
            ("--queues", connections.to_string()),
            ("--size", size.to_string()),
            ("--window", window.to_string()),
            ("--credit", credit.to_string()),
            // The rate of the slower side, without an ever-growing queue.
            ("--max-backlog", if size > LARGE_BODY { "500" } else { "20000" }.to_owned()),
            ("--seconds", self.seconds.to_string()),
            ("--warmup", WARM_UP.to_owned()),
        ];
        let limit = limits.messages(scenario);
        self.repeated(scenario, broker, &words(&pairs, scenario.durable), |outcome| {
            let rate = outcome.need("send_rate")?.min(outcome.need("recv_rate")?);
            let row = Measured {
                value: rate,
                unit: "msgs/s",
                higher_is_better: true,
                cpu_us: outcome.number("broker_cpu_us_per_msg"),
                latency: outcome.latency("ack_us"),
                of_limit: limit.map(|limit| format!("{:.2}", rate / limit)),
                ..Measured::of(scenario, broker)
            };
            Ok(row)
        })
    }

    fn paced(
        &self,
        scenario: &Scenario,
        broker: &Broker,
        limits: &Limits,
        rate: u32,
    ) -> Fallible<Vec<Measured>> {
        let pairs = [
            ("--size", "1024".to_owned()),
            ("--rate", rate.to_string()),
            ("--seconds", self.seconds.to_string()),
            ("--warmup", WARM_UP.to_owned()),
        ];
        let sync = limits.sync_us.filter(|_| scenario.durable);
        let relay = if scenario.durable { limits.durable_relay } else { limits.relay };
        self.repeated(scenario, broker, &words(&pairs, scenario.durable), |outcome| {
            let latency = outcome.latency("e2e_us").ok_or("no message arrived")?;
            let [_, p99, _] = latency;
            Ok(Measured {
                value: p99,
                unit: "µs",
                cpu_us: outcome.number("broker_cpu_us_per_msg"),
                latency: Some(latency),
                of_limit: of_limit(p99, sync, relay),
                ..Measured::of(scenario, broker)
            })
        })
    }

    /// Several runs on one start; the one with the median value stands for all.
    fn repeated(
        &self,
        scenario: &Scenario,
        broker: &Broker,
        words: &[String],
        read: impl Fn(&Outcome) -> Fallible<Measured>,
    ) -> Fallible<Vec<Measured>> {
        let running = self.start_clean(scenario, broker)?;
        let mut rows = Vec::new();
        for _ in 0..self.reps.max(1) {
            let outcome = load::run(&self.load, broker, &running, &broker.address, words)?;
            let mut row = read(&outcome)?;
            row.rss_kb = outcome.number("rss_after_kb");
            rows.push(row);
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
        let (first_s, half_kb) = self.fill_part(broker, &running, half)?;
        let (second_s, full_kb) = self.fill_part(broker, &running, messages - half)?;
        running.kill();

        let start = Instant::now();
        let running = self.start(scenario, broker)?;
        let pairs = [
            ("--senders", "0".to_owned()),
            ("--receivers", "1".to_owned()),
            ("--size", "1024".to_owned()),
            ("--count", "1".to_owned()),
            ("--credit", "1".to_owned()),
            ("--drain-timeout", "120".to_owned()),
        ];
        let outcome = load::run(&self.load, broker, &running, &one_queue(broker), &words(&pairs, false))?;
        let back_s = start.elapsed().as_secs_f64();
        if outcome.need("received")? < 1.0 {
            return Err("nothing was received after the restart".into());
        }
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
    fn fill_part(&self, broker: &Broker, running: &Running, messages: u64) -> Fallible<(f64, f64)> {
        let pairs = [
            ("--senders", "4".to_owned()),
            ("--receivers", "0".to_owned()),
            ("--size", "1024".to_owned()),
            ("--window", "500".to_owned()),
            ("--count", messages.to_string()),
        ];
        let outcome = load::run(&self.load, broker, running, &one_queue(broker), &words(&pairs, true))?;
        let acked = outcome.need("acked")?;
        #[expect(clippy::cast_precision_loss, reason = "a million is far below 2^52")]
        if acked < messages as f64 {
            return Err(format!("{acked} of {messages} were accepted").into());
        }
        thread::sleep(SETTLE);
        Ok((outcome.need("secs")?, rss_kb(running.pid).ok_or("no resident memory to read")?))
    }

    fn idle(&self, scenario: &Scenario, broker: &Broker, connections: u32) -> Fallible<Vec<Measured>> {
        let running = self.start_clean(scenario, broker)?;
        thread::sleep(SETTLE);
        let pairs = [
            ("--mode", "idle".to_owned()),
            ("--connections", connections.to_string()),
            ("--queues", "8".to_owned()),
            ("--seconds", "4".to_owned()),
        ];
        let outcome = load::run(&self.load, broker, &running, &broker.address, &words(&pairs, false))?;
        let row = Measured {
            value: outcome.need("kb_per_conn")?,
            unit: "KB",
            rss_kb: outcome.number("rss_after_kb"),
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

    /// A broker may answer the protocol header before it lets anyone in: the generator's probe opens a connection.
    fn start(&self, scenario: &Scenario, broker: &Broker) -> Fallible<Running> {
        let running = broker.start(&self.folder_of(broker), scenario.durable)?;
        let pairs = [("--mode", "probe".to_owned()), ("--seconds", "60".to_owned())];
        load::run(&self.load, broker, &running, &broker.address, &words(&pairs, false))?;
        Ok(running)
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

fn words(pairs: &[(&str, String)], durable: bool) -> Vec<String> {
    let pairs = pairs.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]);
    pairs.chain(durable.then(|| "--durable".to_owned())).collect()
}

fn one_queue(broker: &Broker) -> String {
    broker.address.replace("{}", "0")
}

/// Resident memory of a process in kilobytes.
fn rss_kb(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
}

/// A 99th percentile beside what the machine alone takes.
fn of_limit(p99: f64, sync: Option<f64>, relay: Option<Floor>) -> Option<String> {
    let syncs = sync.map(|sync| format!("{:.1} fdatasync", p99 / sync));
    let relays = relay.map(|floor| format!("{:.1} × the relay's", p99 / floor.p99));
    let words: Vec<String> = syncs.into_iter().chain(relays).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Bodies above this many bytes get a short backlog: a long one would measure reading back from disk.
const LARGE_BODY: u32 = 10 * 1024;
