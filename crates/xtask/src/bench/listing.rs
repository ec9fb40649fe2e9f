//! What those who send notice of somebody who looks: who lists all queues page by page, or scrapes the metrics.
//!
//! One connection of our own client sends at a steady pace, first alone and then beside the one who looks, over and over
//! in one run, because a host is uneven. Both clients and the broker share the machine's cores.
//!
//! Invariant: a figure beside somebody is compared with the one taken right before it, of the same broker.

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
use crate::table::{self, thousands};
use onlooker::{Looked, Onlooker};

/// How `--scenario` calls it.
pub(super) const NAME: &str = "listing";

/// Queues that are listed, the one that is sent to among them.
pub(super) const QUEUES: u64 = 10_000;
/// Messages a second.
const RATE: u32 = 1_000;
/// How long the sender is measured at a time.
const SPELL: Duration = Duration::from_secs(2);
/// How much later a send may be acknowledged in 99 of 100 cases while somebody looks.
const GOAL: f64 = 2.0;
/// Between two pages where there is a pause: less than what the SDK for Python takes to read one of 100 queues.
const PAUSE: Duration = Duration::from_millis(15);
/// Between two scrapes: many times as often as a Prometheus asks.
const SCRAPE_PAUSE: Duration = Duration::from_secs(1);
/// The queue that is sent to.
const SENT: &str = "sent";

/// What goes on beside the sender.
struct Beside {
    what: &'static str,
    scrapes: bool,
    pause: Duration,
}

const BESIDE: [Beside; 3] = [
    Beside { what: "pages of 100, no pause", scrapes: false, pause: Duration::ZERO },
    Beside { what: "pages of 100, 15 ms between", scrapes: false, pause: PAUSE },
    Beside { what: "scrapes of all, 1 s between", scrapes: true, pause: SCRAPE_PAUSE },
];

/// What was measured of one of them.
pub(super) struct Listed {
    what: String,
    /// Alone and beside, of each round; or why there are none.
    rounds: Result<Vec<Round>, String>,
}

/// The sender alone, then beside somebody.
struct Round {
    alone: Times,
    beside: Times,
    looked: Looked,
}

/// Times to the acknowledgement, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    p50: f64,
    p99: f64,
}

impl Times {
    fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        let at = |share: usize| all.get(all.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
        Self { p50: at(50), p99: at(99) }
    }
}

impl Listed {
    pub(super) fn is_broken(&self) -> bool {
        self.rounds.is_err()
    }

    fn row(&self) -> Vec<String> {
        let rounds = match &self.rounds {
            Ok(rounds) => rounds,
            Err(error) => return vec![self.what.clone(), format!("no result: {error}")],
        };
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let ratio = median(rounds.iter().map(|round| round.beside.p99 / round.alone.p99));
        let pair = |alone: f64, beside: f64| format!("{alone:.0}, {beside:.0}");
        vec![
            self.what.clone(),
            pair(of(|round| round.alone.p50), of(|round| round.beside.p50)),
            pair(of(|round| round.alone.p99), of(|round| round.beside.p99)),
            format!("{ratio:.2}"),
            format!("≤ {GOAL}"),
            short(of(|round| round.looked.a_second)),
            short(of(|round| round.looked.median_ms)),
            short(rounds.iter().map(|round| round.looked.slowest_ms).fold(0.0, f64::max)),
        ]
    }
}

fn median(all: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = all.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// In memory and durable, each with everybody who may be beside the sender, `rounds` times.
pub(super) fn run(binary: &Path, folder: &Path, rounds: usize) -> Vec<Listed> {
    let mut all = Vec::new();
    for (durable, word) in [(false, "in memory"), (true, "durable")] {
        println!("{NAME}, {word} …");
        let mut measured = measure(binary, folder, durable, rounds).map_err(|error| error.to_string());
        for (index, beside) in BESIDE.iter().enumerate() {
            let rounds = match &mut measured {
                Ok(all) => Ok(all.get_mut(index).map(std::mem::take).unwrap_or_default()),
                Err(error) => Err(error.clone()),
            };
            let listed = Listed { what: format!("{word}: {}", beside.what), rounds };
            println!("  {}", listed.row().join(" | "));
            all.push(listed);
        }
    }
    all
}

/// The rounds of each of [`BESIDE`], in turn.
fn measure(binary: &Path, folder: &Path, durable: bool, rounds: usize) -> Fallible<Vec<Vec<Round>>> {
    if folder.is_dir() {
        std::fs::remove_dir_all(folder)?;
    }
    let broker = Broker::configured(binary.to_owned(), configuration())?;
    let running = broker.start(folder, durable)?;
    let mut client = Client::connect(running.port())?;
    client.sender(0, Target::new(SENT))?;
    let message = MessageBuilder::new().message_id("id").data(&[7; 1_024]).build();
    let template = Template::new(0, &message, b"", None);
    let mut send = || Ok::<_, Box<dyn std::error::Error>>(Times::of(client.paced(&template, RATE, SPELL)?));
    // Both are warm before the first round.
    send()?;
    onlooker::count_all(running.port())?;
    let mut all: Vec<Vec<Round>> = BESIDE.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds.max(1) {
        for (beside, all) in BESIDE.iter().zip(&mut all) {
            let alone = send()?;
            let (times, looked) = look_beside(beside, running.port(), &mut send)?;
            all.push(Round { alone, beside: times, looked });
        }
    }
    running.stop();
    Ok(all)
}

fn look_beside(
    beside: &Beside,
    port: u16,
    send: &mut impl FnMut() -> Fallible<Times>,
) -> Fallible<(Times, Looked)> {
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

/// What is recorded of them.
pub(super) fn report(listed: &[Listed], rounds: usize) -> String {
    let rows: Vec<Vec<String>> = listed.iter().map(Listed::row).collect();
    let header = [
        "beside the sender",
        "p50 µs alone, beside",
        "p99 µs alone, beside",
        "p99 ratio",
        "goal",
        "pages/s",
        "page ms",
        "slowest",
    ];
    format!(
        "Listing: {} sends a second of 1 KiB on one connection, alone for {} s and then beside somebody who looks at\n\
         {} queues, {rounds} times in turn; medians, of the ratio too. Of a scrape all is one page.\n\n{}\n",
        thousands(u64::from(RATE)),
        SPELL.as_secs(),
        thousands(QUEUES),
        table::markdown(&header, &rows).trim_end()
    )
}

#[cfg(test)]
mod tests;
