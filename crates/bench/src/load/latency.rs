//! Times of messages, and their percentiles.
//!
//! Invariant: every time that was noted counts; none is rounded by more than 100 ns.

use super::Percentiles;

/// Times in units of 100 ns, which reach to seven minutes.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    times: Vec<u32>,
}

impl Latencies {
    /// Notes a time in nanoseconds.
    pub(super) fn note(&mut self, nanos: u64) {
        self.times.push(u32::try_from(nanos / 100).unwrap_or(u32::MAX));
    }

    /// The longest time in microseconds; none without times.
    pub(super) fn slowest(&self) -> Option<f64> {
        self.times.iter().max().map(|time| f64::from(*time) / 10.0)
    }

    /// p50, p99 and p99.9 in microseconds; none without times.
    pub(super) fn percentiles(&mut self) -> Option<Percentiles> {
        self.times.sort_unstable();
        let last = self.times.len().checked_sub(1)?;
        let at = |thousandths: usize| {
            let index = (self.times.len() * thousandths / 1_000).min(last);
            self.times.get(index).map(|time| f64::from(*time) / 10.0)
        };
        Some([at(500)?, at(990)?, at(999)?])
    }
}

#[cfg(test)]
mod tests;
