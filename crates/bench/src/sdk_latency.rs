//! Latency of single steps of clients, as multiples of a bare request and its answer: where one side waits for a timer of
//! TCP, the multiple is large.
//!
//! Invariant: the bare request is measured in the same run and on the same build. Each client has a broker of its own, so that
//! no message that another one has left comes in its way.

mod connection;
mod programs;
mod small_buffers;
mod times;

use std::path::Path;
use std::time::Duration;

use super::broker::Broker;
use crate::Fallible;
use crate::table;
use connection::Connection;
use times::{StepTimes, Times};

/// Name for `--scenario`.
pub(super) const NAME: &str = "sdk-latency";
/// Repetitions of a step for each that is asked for.
const ROUNDS: usize = 10;
/// Bare requests for each repetition that is asked for.
const BARE_REQUESTS: usize = 100;
/// The step of a message that arrives at a waiting receiver, and how long it may take in memory.
const ARRIVAL: &str = "a message arrives at a waiting receiver";
const ARRIVAL_GOAL_MS: f64 = 2.0;
/// Longest time for 200 KiB through buffers of 8 KiB.
const SMALL_BUFFERS_GOAL_MS: f64 = 5.0;
/// Multiple of Go's time for a step that these clients may take.
const GO_GOAL: f64 = 3.0;
const AS_FAST_AS_GO: [&str; 2] = ["Java", "Node.js"];

/// Measurements with one kind of store.
pub(super) struct Latencies {
    store: &'static str,
    in_memory: bool,
    /// The bare request; or why there is nothing.
    bare: Result<Times, String>,
    clients: Vec<Timed>,
}

/// One client's steps, or why there are none.
struct Timed {
    client: String,
    steps: Result<Vec<StepTimes>, String>,
}

impl Latencies {
    /// Whether something that is installed has given no result.
    pub(super) fn is_broken(&self) -> bool {
        self.bare.is_err() || self.clients.iter().any(|client| client.steps.is_err())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let bare = match &self.bare {
            Ok(bare) => bare,
            Err(error) => return vec![vec![self.store.to_owned(), format!("no result: {error}")]],
        };
        let row = |client: &str, step: &str, times: &Times, goal: String| {
            let ms = |time: f64| format!("{time:.2}");
            let multiple = |time: f64, bare: f64| format!("{:.1}", time / bare);
            vec![
                self.store.to_owned(),
                client.to_owned(),
                step.to_owned(),
                ms(times.p50_ms),
                ms(times.p99_ms),
                multiple(times.p50_ms, bare.p50_ms),
                multiple(times.p99_ms, bare.p99_ms),
                goal,
            ]
        };
        let mut rows = vec![row("ours, bare", "send 1 KiB", bare, String::new())];
        for client in &self.clients {
            match &client.steps {
                Ok(steps) => rows.extend(steps.iter().map(|step| {
                    row(&client.client, &step.name, &step.times, self.goal(&client.client, step))
                })),
                Err(error) => {
                    rows.push(vec![
                        self.store.to_owned(),
                        client.client.clone(),
                        format!("no result: {error}"),
                    ]);
                }
            }
        }
        rows
    }

    /// Goal of a step, and whether the step misses it.
    fn goal(&self, client: &str, step: &StepTimes) -> String {
        let said = |limit: f64, text: String| {
            if step.times.p50_ms > limit { format!("{text}: missed") } else { text }
        };
        if self.in_memory && step.name == ARRIVAL {
            return said(ARRIVAL_GOAL_MS, format!("≤ {ARRIVAL_GOAL_MS} ms"));
        }
        if client == small_buffers::CLIENT {
            return said(SMALL_BUFFERS_GOAL_MS, format!("≤ {SMALL_BUFFERS_GOAL_MS} ms"));
        }
        match self.times_of("Go", &step.name) {
            Some(go) if AS_FAST_AS_GO.contains(&client) => {
                said(GO_GOAL * go.p50_ms, format!("≤ {GO_GOAL} × Go's {:.2}", go.p50_ms))
            }
            _ => String::new(),
        }
    }

    fn times_of(&self, client: &str, step: &str) -> Option<&Times> {
        let timed = self.clients.iter().find(|timed| timed.client == client)?;
        timed.steps.as_ref().ok()?.iter().find(|found| found.name == step).map(|found| &found.times)
    }
}

/// All clients, in memory and durable. `root` is the checkout, whose `interop/` has the programs.
pub(super) fn run(binary: &Path, root: &Path, folder: &Path, reps: usize) -> Vec<Latencies> {
    [("in memory", false), ("durable", true)]
        .into_iter()
        .map(|(store, durable)| {
            println!("{NAME}, {store} …");
            let (bare, clients) = match measure(binary, root, folder, durable, reps) {
                Ok((bare, clients)) => (Ok(bare), clients),
                Err(error) => (Err(error.to_string()), Vec::new()),
            };
            let latencies = Latencies { store, in_memory: !durable, bare, clients };
            for row in latencies.rows() {
                println!("  {}", row.join(" | "));
            }
            latencies
        })
        .collect()
}

fn measure(
    binary: &Path,
    root: &Path,
    folder: &Path,
    durable: bool,
    reps: usize,
) -> Fallible<(Times, Vec<Timed>)> {
    let brokers = Brokers { binary, folder, durable };
    let bare = brokers.with(|port| bare(port, BARE_REQUESTS * reps.max(1)))?;
    let rounds = ROUNDS * reps.max(1);
    let timed = |client: &str, steps: Fallible<Vec<StepTimes>>| Timed {
        client: client.to_owned(),
        steps: steps.map_err(|error| error.to_string()),
    };
    let mut clients: Vec<Timed> = programs::installed(root)
        .into_iter()
        .map(|(client, program)| {
            let steps = program.and_then(|program| brokers.with(|port| program.run(folder, port, rounds)));
            timed(client, steps)
        })
        .collect();
    let steps = brokers.with(|port| small_buffers::measure(port, rounds));
    clients.push(timed(small_buffers::CLIENT, steps));
    Ok((bare, clients))
}

/// Brokers of the build that is measured, one after the other, each on an empty folder.
struct Brokers<'a> {
    binary: &'a Path,
    folder: &'a Path,
    durable: bool,
}

impl Brokers<'_> {
    /// Measures with a broker on this port.
    fn with<T>(&self, measured: impl FnOnce(u16) -> Fallible<T>) -> Fallible<T> {
        if self.folder.is_dir() {
            std::fs::remove_dir_all(self.folder)?;
        }
        let broker = Broker::configured(self.binary.to_owned(), programs::CONFIGURATION.to_owned())?;
        let running = broker.start(self.folder, self.durable)?;
        let times = measured(running.port());
        running.stop();
        times
    }
}

/// One message after the other on a connection that nothing slows down.
fn bare(port: u16, requests: usize) -> Fallible<Times> {
    let mut connection = Connection::ordinary(port)?;
    connection.sender("latency-bare")?;
    let message = connection::message(1 << 10);
    connection.send(&message)?;
    let all = (0..requests).map(|_| connection.send(&message)).collect::<Fallible<Vec<Duration>>>()?;
    Ok(Times::of(&all))
}

/// The rows of the report.
pub(super) fn report(latencies: &[Latencies], reps: usize) -> String {
    let rows: Vec<Vec<String>> = latencies.iter().flat_map(Latencies::rows).collect();
    let header = ["store", "client", "step", "p50 ms", "p99 ms", "p50 × bare", "p99 × bare", "goal of p50"];
    format!(
        "Steps of clients: {} of each, one after the other. A bare request is a message of 1 KiB that is sent and accepted.\n\n{}\n",
        ROUNDS * reps.max(1),
        table::markdown(&header, &rows).trim_end()
    )
}

#[cfg(test)]
mod tests;
