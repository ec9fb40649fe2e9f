//! Effect on a sender of a client that lists all queues page by page, or scrapes the metrics.
//!
//! One connection of our own client sends at a steady pace, first alone and then beside the one who looks, over and over
//! in one run, because a host is uneven. Both clients and the broker share the machine's cores. Spells are short and many,
//! and the times of all spells of a kind are pooled: a disk that stands still for some milliseconds now and then would
//! otherwise decide which of two spells is the slower one.
//!
//! Invariant: sending alone and sending beside another client take turns, on the same broker.

mod onlooker;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Target;

use super::broker::Broker;
use super::growth::client::{Client, Template};
use super::measure::short;
use crate::Fallible;
use crate::figures::median;
use crate::table::{self, thousands};
use onlooker::{Looked, Onlooker};

/// Name for `--scenario`.
pub(super) const NAME: &str = "listing";

/// Queues that are listed, the one that is sent to among them.
pub(super) const QUEUES: u64 = 10_000;
/// Messages a second.
const RATE: u32 = 1_000;
/// Time for which the sender is measured at once.
const SPELL: Duration = Duration::from_secs(1);
/// Spells of each kind for each repetition that is asked for.
const SPELLS: usize = 8;
/// Largest ratio of a send's 99th percentile beside another client to that of a sender alone.
const GOAL: f64 = 2.0;
/// Between two pages where there is a pause: less than what the SDK for Python takes to read one of 100 queues.
const PAUSE: Duration = Duration::from_millis(15);
/// Between two scrapes: many times as often as a Prometheus asks.
const SCRAPE_PAUSE: Duration = Duration::from_secs(1);
/// A file system in memory, which any Linux has.
const MEMORY: &str = "/dev/shm";
/// The queue that is sent to.
const SENT: &str = "sent";

/// Requests that run beside the sender.
struct Beside {
    what: &'static str,
    scrapes: bool,
    /// Another broker on the same machine is looked at: what the sender notices of that is the machine's, not the broker's.
    elsewhere: bool,
    pause: Duration,
}

const BESIDE: [Beside; 4] = [
    Beside { what: "pages of 100, no pause", scrapes: false, elsewhere: false, pause: Duration::ZERO },
    Beside { what: "the same of another broker", scrapes: false, elsewhere: true, pause: Duration::ZERO },
    Beside { what: "pages of 100, 15 ms between", scrapes: false, elsewhere: false, pause: PAUSE },
    Beside { what: "scrapes of all, 1 s between", scrapes: true, elsewhere: false, pause: SCRAPE_PAUSE },
];

/// Store of the broker's accepted messages.
struct Store {
    word: &'static str,
    durable: bool,
    /// A folder in memory instead of that of the bench.
    in_memory: bool,
}

const STORES: [Store; 3] = [
    Store { word: "in memory", durable: false, in_memory: false },
    Store { word: "durable", durable: true, in_memory: false },
    // The same path through the journal, without the unevenness of a disk that others share.
    Store { word: "durable, the folder in memory", durable: true, in_memory: true },
];

/// Measurements beside one of them.
pub(super) struct ListingResult {
    what: String,
    /// Of all spells; or why there are none.
    spells: Result<Spells, String>,
}

/// The sender alone and beside somebody, in turn.
#[derive(Default)]
struct Spells {
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    /// Of each pair of spells, how many times later the 99th of a hundred sends was acknowledged.
    ratios: Vec<f64>,
    looked: Vec<Looked>,
}

/// Times to the acknowledgement, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    fn of(all: &[Duration]) -> Self {
        let mut all = all.to_vec();
        all.sort_unstable();
        let at = |share: usize| all.get(all.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        Self { p50: at(50), p99: at(99) }
    }
}

impl Spells {
    fn take(&mut self, alone: Vec<Duration>, beside: Vec<Duration>, looked: Looked) {
        self.ratios.push(Times::of(&beside).p99 / Times::of(&alone).p99);
        self.alone.extend(alone);
        self.beside.extend(beside);
        self.looked.push(looked);
    }
}

impl ListingResult {
    pub(super) fn is_broken(&self) -> bool {
        self.spells.is_err()
    }

    fn row(&self) -> Vec<String> {
        let spells = match &self.spells {
            Ok(spells) => spells,
            Err(error) => return vec![self.what.clone(), format!("no result: {error}")],
        };
        let (alone, beside) = (Times::of(&spells.alone), Times::of(&spells.beside));
        let of = |figure: fn(&Looked) -> f64| median(spells.looked.iter().map(figure));
        let pair = |alone: f64, beside: f64| format!("{alone:.0}, {beside:.0}");
        vec![
            self.what.clone(),
            pair(alone.p50, beside.p50),
            pair(alone.p99, beside.p99),
            format!("{:.2}", beside.p99 / alone.p99),
            format!("{:.2}", median(spells.ratios.iter().copied())),
            format!("≤ {GOAL}"),
            short(of(|looked| looked.a_second)),
            short(of(|looked| looked.median_ms)),
            short(spells.looked.iter().map(|looked| looked.slowest_ms).fold(0.0, f64::max)),
        ]
    }
}

/// Each store with everybody who may be beside the sender, [`SPELLS`] times for each of `reps`.
pub(super) fn run(binary: &Path, folder: &Path, reps: usize) -> Vec<ListingResult> {
    let mut all = Vec::new();
    for store in &STORES {
        println!("{NAME}, {} …", store.word);
        let mut measured = measure(binary, folder, store, reps * SPELLS).map_err(|error| error.to_string());
        for (index, beside) in BESIDE.iter().enumerate() {
            let spells = match &mut measured {
                Ok(all) => Ok(all.get_mut(index).map(std::mem::take).unwrap_or_default()),
                Err(error) => Err(error.clone()),
            };
            let listed = ListingResult { what: format!("{}: {}", store.word, beside.what), spells };
            println!("  {}", listed.row().join(" | "));
            all.push(listed);
        }
    }
    all
}

/// The spells beside each of [`BESIDE`], in turn.
fn measure(binary: &Path, folder: &Path, store: &Store, spells: usize) -> Fallible<Vec<Spells>> {
    let memory = Path::new(MEMORY).join(format!("ferrybus-{NAME}-{}", std::process::id()));
    let folder = if store.in_memory { memory.as_path() } else { folder };
    if folder.is_dir() {
        std::fs::remove_dir_all(folder)?;
    }
    let measured = measure_in(binary, folder, store.durable, spells);
    if store.in_memory && folder.is_dir() {
        std::fs::remove_dir_all(folder)?;
    }
    measured
}

fn measure_in(binary: &Path, folder: &Path, durable: bool, spells: usize) -> Fallible<Vec<Spells>> {
    let broker = Broker::configured(binary.to_owned(), configuration())?;
    let running = broker.start(folder, durable)?;
    let other =
        Broker::configured(binary.to_owned(), configuration())?.start(&folder.join("elsewhere"), false)?;
    let mut client = Client::connect(running.port())?;
    client.sender(0, Target::new(SENT))?;
    let message = MessageBuilder::new().message_id("id").data(&[7; 1_024]).build();
    let template = Template::new(0, &message, b"", None);
    let mut send = || client.paced(&template, RATE, SPELL);
    // All are warm before the first spell.
    send()?;
    onlooker::count_all(running.port())?;
    onlooker::count_all(other.port())?;
    let mut all: Vec<Spells> = BESIDE.iter().map(|_| Spells::default()).collect();
    for _ in 0..spells.max(1) {
        for (beside, all) in BESIDE.iter().zip(&mut all) {
            let port = if beside.elsewhere { other.port() } else { running.port() };
            let alone = send()?;
            let (times, looked) = look_beside(beside, port, &mut send)?;
            all.take(alone, times, looked);
        }
    }
    running.stop();
    other.stop();
    Ok(all)
}

fn look_beside(
    beside: &Beside,
    port: u16,
    send: &mut impl FnMut() -> Fallible<Vec<Duration>>,
) -> Fallible<(Vec<Duration>, Looked)> {
    let over = AtomicBool::new(false);
    let onlooker = Onlooker { port, scrapes: beside.scrapes, pause: beside.pause };
    thread::scope(|scope| {
        let looking =
            scope.spawn(|| onlooker.look(|| over.load(Ordering::Relaxed)).map_err(|error| error.to_string()));
        let times = send();
        over.store(true, Ordering::Relaxed);
        let looked = looking.join().map_err(|_| "who looks has panicked")?;
        Ok((times?, looked?))
    })
}

fn configuration() -> String {
    let mut text = format!("[limits]\nmax_entities = 20000\n[[queue]]\nname = \"{SENT}\"\n");
    for number in 1..QUEUES {
        writeln!(text, "[[queue]]\nname = \"listed-{number:05}\"").unwrap_or_default();
    }
    text
}

/// The rows of the report.
pub(super) fn report(listed: &[ListingResult], reps: usize) -> String {
    let rows: Vec<Vec<String>> = listed.iter().map(ListingResult::row).collect();
    let header = [
        "beside the sender",
        "p50 µs alone, beside",
        "p99 µs alone, beside",
        "p99 ratio",
        "of pairs",
        "goal",
        "pages/s",
        "page ms",
        "slowest",
    ];
    format!(
        "Listing: {} sends a second of 1 KiB on one connection, alone for {} s and then beside somebody who looks at\n\
         {} queues, {} times in turn; all times of a kind pooled, and of the ratios of pairs the median. Of a scrape all is\n\
         one page.\n\n{}\n",
        thousands(u64::from(RATE)),
        SPELL.as_secs(),
        thousands(QUEUES),
        reps * SPELLS,
        table::markdown(&header, &rows).trim_end()
    )
}

#[cfg(test)]
mod tests;
