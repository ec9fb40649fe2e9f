//! CPU cost of a message, and its growth with the number of subscriptions, sessions or waiting messages.
//!
//! The client here is our own, for the load generator knows no sessions, schedules and rules. The measured value is the
//! broker's CPU, so the client's own speed does not show.
//!
//! Invariant: the sizes of one family differ in nothing but the number that the family is about.

pub(super) mod client;
mod fan_out;
mod memory;
mod queued;
mod scheduled;
mod sessions;
mod transactions;

use std::path::Path;
use std::time::Duration;

use super::broker::{Broker, Running};
use super::measure::short;
use crate::Fallible;
use crate::table::{self, thousands};

/// Time for which one size is measured, after its entities and messages were made.
const MEASURED: Duration = Duration::from_millis(1_500);

/// One line of the table: the same work at several sizes.
pub(super) struct Family {
    pub(super) name: &'static str,
    title: &'static str,
    /// Few first.
    sizes: &'static [u64],
    /// Largest allowed ratio of a message's cost at the last size to that at the first one.
    goal: Option<f64>,
    /// The broker's configuration for a size.
    configuration: fn(u64) -> String,
    measure: fn(&Running, u64) -> Fallible<Cost>,
}

/// CPU time of some messages.
#[derive(Clone, Copy, Debug)]
struct Cost {
    messages: u64,
    cpu: Duration,
}

/// Cost of a message at one size, in microseconds.
#[derive(Clone, Copy, Debug)]
struct AtSize {
    size: u64,
    median: f64,
    /// Of the run that the rest of the machine disturbed least.
    least: f64,
}

/// Cost of a message of a family at each size.
#[derive(Debug)]
pub(super) struct Grown {
    title: &'static str,
    goal: Option<f64>,
    costs: Vec<AtSize>,
    error: Option<String>,
}

pub(super) const FAMILIES: [Family; 8] = [
    Family {
        name: "fan-out-correlation",
        title: "sent to a topic, one subscription of so many matches, correlation filters",
        sizes: &[1, 10, 100, 10_000],
        goal: Some(1.2),
        configuration: fan_out::correlation,
        measure: fan_out::measure,
    },
    Family {
        name: "fan-out-sql",
        title: "the same, SQL filters",
        sizes: &[1, 10, 100, 10_000],
        goal: None,
        configuration: fan_out::sql,
        measure: fan_out::measure,
    },
    Family {
        name: "fan-out-unindexed",
        title: "sent to a topic, for each of so many filters that no index serves, of which one matches",
        sizes: &[1, 10, 100, 10_000],
        goal: None,
        configuration: fan_out::tried,
        measure: fan_out::measure_each,
    },
    Family {
        name: "fan-out-every",
        title: "sent to a topic, for each copy, so many subscriptions that all match",
        sizes: &[1, 10, 100, 10_000],
        goal: None,
        configuration: fan_out::all,
        measure: fan_out::measure_each,
    },
    Family {
        name: "sessions",
        title: "sent, received and completed, so many sessions held",
        sizes: &[100, 1_000, 10_000],
        goal: Some(1.2),
        configuration: sessions::configuration,
        measure: sessions::measure,
    },
    Family {
        name: "scheduled",
        title: "scheduled, come due and received, so many waiting for their time",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        goal: Some(1.2),
        configuration: scheduled::configuration,
        measure: scheduled::measure,
    },
    Family {
        name: "queued",
        title: "sent and received, so many queued between",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        goal: Some(1.2),
        configuration: queued::configuration,
        measure: queued::measure,
    },
    Family {
        name: "transactions-10",
        title: "sent, so many together in a transaction (1: without)",
        sizes: &[1, 10],
        goal: None,
        configuration: transactions::configuration,
        measure: transactions::measure,
    },
];

impl Family {
    /// Every size `reps` times, in turn, so that what else the machine does concerns all of them; the median of each
    /// stands for it, and beside it the least, for what else a machine does only ever adds.
    pub(super) fn run(&self, binary: &Path, folder: &Path, reps: usize) -> Grown {
        println!("{} …", self.name);
        let mut grown = Grown { title: self.title, goal: self.goal, costs: Vec::new(), error: None };
        let mut costs = vec![Vec::new(); self.sizes.len()];
        'all: for _ in 0..reps.max(1) {
            for (size, costs) in self.sizes.iter().zip(&mut costs) {
                match self.cost(binary, folder, *size) {
                    Ok(cost) => {
                        println!("  {}: {} µs", thousands(*size), short(cost));
                        costs.push(cost);
                    }
                    Err(error) => {
                        grown.error = Some(format!("{}: {error}", thousands(*size)));
                        break 'all;
                    }
                }
            }
        }
        for (&size, mut costs) in self.sizes.iter().zip(costs) {
            costs.sort_by(f64::total_cmp);
            if let (Some(&median), Some(&least)) = (costs.get(costs.len() / 2), costs.first()) {
                grown.costs.push(AtSize { size, median, least });
            }
        }
        grown
    }

    /// CPU of the broker for one message, in microseconds.
    fn cost(&self, binary: &Path, folder: &Path, size: u64) -> Fallible<f64> {
        if folder.is_dir() {
            std::fs::remove_dir_all(folder)?;
        }
        let broker = Broker::configured(binary.to_owned(), (self.configuration)(size))?;
        let running = broker.start(folder, false)?;
        let Cost { messages, cpu } = (self.measure)(&running, size)?;
        running.stop();
        if messages == 0 {
            return Err("no message got through".into());
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody sends 2^52 messages in seconds")]
        Ok(cpu.as_secs_f64() * 1e6 / messages as f64)
    }
}

impl Grown {
    pub(super) fn is_broken(&self) -> bool {
        self.error.is_some()
    }

    /// Ratio of a message's cost at the last size to that at the first one.
    fn growth(&self, of: fn(&AtSize) -> f64) -> Option<f64> {
        let (first, last) = (of(self.costs.first()?), of(self.costs.last()?));
        (first > 0.0).then(|| last / first)
    }

    /// The same of the medians, for each tenfold of the size.
    fn growth_per_tenfold(&self) -> Option<f64> {
        let (first, last) = (self.costs.first()?.size, self.costs.last()?.size);
        #[expect(clippy::cast_precision_loss, reason = "sizes are round numbers far below 2^52")]
        let tenfolds = (last as f64 / first as f64).log10();
        (tenfolds > 0.0).then_some(self.growth(|at| at.median)?.powf(tenfolds.recip()))
    }
}

/// One row for each family.
pub(super) fn report(families: &[Grown], reps: usize) -> String {
    let rows: Vec<Vec<String>> = families.iter().map(row).collect();
    let header = [
        "CPU of the broker for each message",
        "growth",
        "of the least",
        "goal",
        "per tenfold",
        "µs at each size: median (least)",
    ];
    let table = table::markdown(&header, &rows);
    let seconds = MEASURED.as_secs_f64();
    format!(
        "Growth: Ferrybus in memory, a client of `xtask`, {seconds} s a run, median and least of {reps}; the ratio\n\
         of the last size to the first, and what that of the medians is for each tenfold. {}\n\n{}\n",
        memory::report(),
        table.trim_end()
    )
}

fn row(grown: &Grown) -> Vec<String> {
    let costs = grown
        .costs
        .iter()
        .map(|at| format!("{}: {} ({})", thousands(at.size), short(at.median), short(at.least)));
    let costs = costs.chain(grown.error.iter().map(|error| format!("no result at {error}")));
    vec![
        grown.title.to_owned(),
        ratio(grown.growth(|at| at.median)),
        ratio(grown.growth(|at| at.least)),
        grown.goal.map(|goal| format!("≤ {goal}")).unwrap_or_default(),
        ratio(grown.growth_per_tenfold()),
        costs.collect::<Vec<_>>().join(", "),
    ]
}

fn ratio(growth: Option<f64>) -> String {
    growth.map(|growth| format!("{growth:.2}")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
