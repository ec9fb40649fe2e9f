//! The lines of the screen: what two samples say together, picked and sorted.
//!
//! Invariant: a rate is the difference of two counts over the time between them, and unknown where there are no two.

use std::{cmp::Ordering, time::Duration};

use broker_core::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use super::metrics::{EntityMetrics, MetricsByEntity, OF_NAMESPACE};

/// A column.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Column {
    /// The entity's name.
    Name,
    Kind,
    /// Messages to receive.
    Active,
    /// Messages that are not due yet.
    Scheduled,
    /// Dead letters.
    DeadLetter,
    /// Messages that are locked.
    Locked,
    /// Messages a second that come.
    In,
    /// Messages a second that go.
    Out,
    /// Age of the oldest message.
    Oldest,
}

impl Column {
    pub(crate) const ALL: [Self; 9] = [
        Self::Name,
        Self::Kind,
        Self::Active,
        Self::Scheduled,
        Self::DeadLetter,
        Self::Locked,
        Self::In,
        Self::Out,
        Self::Oldest,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Kind => "KIND",
            Self::Active => "ACTIVE",
            Self::Scheduled => "SCHED",
            Self::DeadLetter => "DEAD",
            Self::Locked => "LOCKED",
            Self::In => "IN/S",
            Self::Out => "OUT/S",
            Self::Oldest => "OLDEST",
        }
    }

    /// The key that sorts by it: a letter of its title.
    pub(crate) const fn key(self) -> char {
        match self {
            Self::Name => 'n',
            Self::Kind => 'k',
            Self::Active => 'a',
            Self::Scheduled => 's',
            Self::DeadLetter => 'd',
            Self::Locked => 'l',
            Self::In => 'i',
            Self::Out => 'o',
            Self::Oldest => 't',
        }
    }

    /// Texts begin with the first letter, numbers with the largest.
    const fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::Kind)
    }

    /// The column on the right, or on the left.
    pub(crate) fn beside(self, is_right: bool) -> Self {
        let at = Self::ALL.iter().position(|column| *column == self).unwrap_or_default();
        let count = Self::ALL.len();
        let next = if is_right { at + 1 } else { at + count - 1 } % count;
        Self::ALL.get(next).copied().unwrap_or(self)
    }
}

/// One entity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) reading: EntityMetrics,
    /// Messages a second.
    pub(crate) rate_in: Option<f64>,
    /// Messages a second.
    pub(crate) rate_out: Option<f64>,
}

/// All entities of a sample; with rates, where there is an earlier one that long ago.
pub(crate) fn rows(now: &MetricsByEntity, before: Option<(&MetricsByEntity, Duration)>) -> Vec<Row> {
    let rate = |key: &(String, String), of: fn(&EntityMetrics) -> f64, count: f64| {
        let (before, elapsed) = before?;
        let gone = count - of(before.get(key)?);
        // A count that went back belongs to a broker that was started anew.
        (gone >= 0.0 && !elapsed.is_zero()).then(|| gone / elapsed.as_secs_f64())
    };
    let row = |(key, reading): (&(String, String), &EntityMetrics)| Row {
        name: key.0.clone(),
        kind: key.1.clone(),
        rate_in: rate(key, |reading| reading.incoming, reading.incoming),
        rate_out: rate(key, |reading| reading.outgoing, reading.outgoing),
        reading: reading.clone(),
    };
    now.iter().map(row).collect()
}

impl Row {
    /// Dead letters of both kinds.
    pub(crate) const fn dead_letters(&self) -> u64 {
        self.reading.dead_letter.saturating_add(self.reading.transfer_dead_letter)
    }

    /// Seconds. The broker says 0 of an entity that has no message.
    fn oldest_age(&self) -> Option<f64> {
        let EntityMetrics { active, scheduled, deferred, oldest_age, .. } = self.reading;
        oldest_age.filter(|_| active > 0 || scheduled > 0 || deferred > 0 || self.dead_letters() > 0)
    }

    /// Text of a column.
    pub(crate) fn cell(&self, column: Column) -> String {
        match column {
            Column::Name => crate::output::printable(&self.name),
            Column::Kind => crate::output::printable(&self.kind),
            Column::Active => self.reading.active.to_string(),
            Column::Scheduled => self.reading.scheduled.to_string(),
            Column::DeadLetter => self.dead_letters().to_string(),
            Column::Locked => self.reading.locked.to_string(),
            Column::In => rate_text(self.rate_in),
            Column::Out => rate_text(self.rate_out),
            Column::Oldest => self.oldest_age().map_or("-".into(), age_text),
        }
    }

    fn compare(&self, other: &Self, column: Column) -> Ordering {
        let float =
            |one: Option<f64>, other: Option<f64>| one.unwrap_or(-1.0).total_cmp(&other.unwrap_or(-1.0));
        match column {
            Column::Name => self.name.to_lowercase().cmp(&other.name.to_lowercase()),
            Column::Kind => self.kind.cmp(&other.kind),
            Column::Active => self.reading.active.cmp(&other.reading.active),
            Column::Scheduled => self.reading.scheduled.cmp(&other.reading.scheduled),
            Column::DeadLetter => self.dead_letters().cmp(&other.dead_letters()),
            Column::Locked => self.reading.locked.cmp(&other.reading.locked),
            Column::In => float(self.rate_in, other.rate_in),
            Column::Out => float(self.rate_out, other.rate_out),
            Column::Oldest => float(self.oldest_age(), other.oldest_age()),
        }
    }

    /// One object. Counts are since the broker's start: one sample has no rates.
    pub(crate) fn json(&self) -> Value {
        let EntityMetrics { active, scheduled, deferred, dead_letter, transfer_dead_letter, locked, .. } =
            self.reading;
        let (namespace, entity) =
            self.name.split_once(OF_NAMESPACE).unwrap_or((DEFAULT_NAMESPACE, &self.name));
        json!({
            "namespace": namespace,
            "entity": entity,
            "kind": self.kind,
            "active": active,
            "scheduled": scheduled,
            "deferred": deferred,
            "dead_letter": dead_letter,
            "transfer_dead_letter": transfer_dead_letter,
            "locked": locked,
            "incoming_total": self.reading.incoming,
            "outgoing_total": self.reading.outgoing,
            "oldest_age_seconds": self.oldest_age(),
        })
    }
}

/// Keeps what has the filter's letters in its name, and sorts.
pub(crate) fn arrange(rows: &[Row], filter: &str, sort: Column, is_reversed: bool) -> Vec<Row> {
    let filter = filter.to_lowercase();
    let mut rows: Vec<Row> =
        rows.iter().filter(|row| row.name.to_lowercase().contains(&filter)).cloned().collect();
    rows.sort_by(|one, other| {
        let order = one.compare(other, sort);
        let order = if sort.is_text() == is_reversed { order.reverse() } else { order };
        order.then_with(|| one.compare(other, Column::Name))
    });
    rows
}

/// `0`, `7.5`, `120`, `12.3k`.
pub(crate) fn rate_text(rate: Option<f64>) -> String {
    match rate {
        None => "-".into(),
        Some(rate) if rate < 0.05 => "0".into(),
        Some(rate) if rate < 99.95 => format!("{rate:.1}"),
        Some(rate) if rate < 9_999.5 => format!("{rate:.0}"),
        Some(rate) if rate < 999_950.0 => format!("{:.1}k", rate / 1_000.0),
        Some(rate) => format!("{:.1}M", rate / 1_000_000.0),
    }
}

/// In the two largest units that there are: `2d 3h`, `45s`.
pub(crate) fn age_text(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX).as_secs();
    let text = crate::property::human_time(Duration::from_secs(whole));
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
