//! A client of HTTP who lists all queues in pages, or scrapes the metrics, and takes the time.
//!
//! Invariant: who looks has seen all the queues there are; while the time is taken they read no more of an answer than
//! they need, for they use the cores of those who are measured.

use std::thread;
use std::time::{Duration, Instant};

use super::super::http::Visitor;
use super::QUEUES;
use crate::Fallible;

/// Queues of a page.
const PAGE: u64 = 100;
/// Bytes in which the link to the next page stands.
const HEAD_BYTES: usize = 2_048;
const METRICS: &str = "/metrics";

/// A client that lists queues or scrapes metrics, with a pause between two requests.
pub(super) struct Onlooker {
    pub(super) port: u16,
    pub(super) scrapes: bool,
    pub(super) pause: Duration,
}

/// Figures of the requests of one onlooker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    /// Pages a second, pauses included.
    pub(super) a_second: f64,
    pub(super) median_ms: f64,
    pub(super) slowest_ms: f64,
}

impl Onlooker {
    /// Looks until it is `over`.
    pub(super) fn look(&self, over: impl Fn() -> bool) -> Fallible<Looked> {
        let mut visitor = Visitor::connect(self.port)?;
        let begin = Instant::now();
        let (mut times, mut skip) = (Vec::new(), 0);
        while !over() {
            let asked = Instant::now();
            if self.scrapes {
                visitor.get(METRICS)?;
            } else {
                skip = page(&mut visitor, skip)?;
            }
            times.push(asked.elapsed().as_secs_f64() * 1e3);
            thread::sleep(self.pause);
        }
        times.sort_by(f64::total_cmp);
        #[expect(clippy::cast_precision_loss, reason = "nobody asks 2^52 times")]
        let a_second = times.len() as f64 / begin.elapsed().as_secs_f64();
        let median_ms = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Looked { a_second, median_ms, slowest_ms: times.last().copied().unwrap_or_default() })
    }
}

/// Lists and scrapes all of them once, and counts.
pub(super) fn count_all(port: u16) -> Fallible<()> {
    let mut visitor = Visitor::connect(port)?;
    let (mut listed, mut skip) = (0, Some(0));
    while let Some(behind) = skip {
        let body = visitor.get(&path(behind))?;
        listed += occurrences(&body, b"<entry>");
        skip = has_next(&body).then_some(listed);
    }
    let scraped = occurrences(&visitor.get(METRICS)?, b"\nferrybus_entity_size_bytes{");
    if (listed, scraped) != (QUEUES, QUEUES) {
        return Err(format!("{listed} queues listed and {scraped} scraped, of {QUEUES}").into());
    }
    Ok(())
}

/// Takes the page behind `skip`; says where the next one begins, 0 after the last.
fn page(visitor: &mut Visitor, skip: u64) -> Fallible<u64> {
    let body = visitor.get(&path(skip))?;
    Ok(if has_next(&body) { skip + PAGE } else { 0 })
}

fn path(skip: u64) -> String {
    format!("/$Resources/queues?api-version=2021-05&$skip={skip}&$top={PAGE}")
}

/// Whether more follow. The link stands in front of the entries.
fn has_next(page: &[u8]) -> bool {
    occurrences(page.get(..HEAD_BYTES).unwrap_or(page), b"rel=\"next\"") > 0
}

fn occurrences(text: &[u8], part: &[u8]) -> u64 {
    text.windows(part.len()).filter(|window| *window == part).count() as u64
}

#[cfg(test)]
mod tests;
