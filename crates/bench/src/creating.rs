//! Rate of entity creation through the management API: one client, one connection, one request after the other.
//!
//! Invariant: the broker is durable and what was created is counted, so nothing is measured that did not happen.

use std::path::Path;
use std::time::Instant;

use super::broker::Broker;
use super::http::Visitor;
use super::measure::short;
use crate::Fallible;
use crate::table::{self, thousands};

/// Name for `--scenario`.
pub(super) const NAME: &str = "creating";

/// Queues that are created.
const QUEUES: u64 = 5_000;
/// Seconds that they may take.
const GOAL: f64 = 10.0;
/// Queues of a page of the list that counts them.
const PAGE: u64 = 100;

const ENTRY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT30S</LockDuration></QueueDescription></content></entry>"#;

/// Time of the creation of all entities.
pub(super) struct Created(Fallible<Times>);

struct Times {
    seconds: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Created {
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_err()
    }

    fn row(&self) -> Vec<String> {
        let what = format!("{} queues, one connection, durable", thousands(QUEUES));
        match &self.0 {
            Ok(times) => {
                let figures = [times.seconds, times.p50_ms, times.p99_ms].map(short);
                [what].into_iter().chain(figures).chain([format!("≤ {GOAL} s")]).collect()
            }
            Err(error) => vec![what, format!("no result: {error}")],
        }
    }
}

/// Creates them on an empty broker.
pub(super) fn run(binary: &Path, folder: &Path) -> Created {
    println!("{NAME} …");
    let created = Created(measure(binary, folder));
    println!("  {}", created.row().join(" | "));
    created
}

fn measure(binary: &Path, folder: &Path) -> Fallible<Times> {
    if folder.is_dir() {
        std::fs::remove_dir_all(folder)?;
    }
    let broker = Broker::configured(binary.to_owned(), "[limits]\nmax_entities = 20000\n".to_owned())?;
    let running = broker.start(folder, true)?;
    let mut visitor = Visitor::connect(running.port())?;
    let mut times = Vec::new();
    let begin = Instant::now();
    for number in 0..QUEUES {
        let asked = Instant::now();
        visitor.create(&format!("/created-{number:05}?api-version=2021-05"), ENTRY)?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut listed = 0;
    for skip in (0..QUEUES).step_by(usize::try_from(PAGE)?) {
        let path = format!("/$Resources/queues?api-version=2021-05&$skip={skip}&$top={PAGE}");
        listed += String::from_utf8(visitor.get(&path)?)?.matches("<entry").count() as u64;
    }
    running.stop();
    if listed != QUEUES {
        return Err(format!("{listed} queues are there of {QUEUES}").into());
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok(Times { seconds, p50_ms: at(50), p99_ms: at(99) })
}

/// The rows of the report.
pub(super) fn report(created: &Created) -> String {
    let header = ["created over HTTP", "seconds", "p50 ms", "p99 ms", "goal"];
    table::markdown(&header, &[created.row()])
}
