//! The entities in what the broker tells Prometheus.
//!
//! Invariant: whatever a line says, it is either understood or passed over; names are kept as they are.

use std::collections::BTreeMap;

use broker_core::DEFAULT_NAMESPACE;

/// Metrics of one entity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EntityMetrics {
    pub(crate) active: u64,
    pub(crate) scheduled: u64,
    pub(crate) deferred: u64,
    pub(crate) dead_letter: u64,
    pub(crate) transfer_dead_letter: u64,
    pub(crate) locked: u64,
    /// Messages since the broker's start.
    pub(crate) incoming: f64,
    /// Messages since the broker's start.
    pub(crate) outgoing: f64,
    /// Seconds.
    pub(crate) oldest_age: Option<f64>,
}

/// All entities, by name and kind. The name of one outside of the default namespace begins with that of its namespace.
pub(crate) type MetricsByEntity = BTreeMap<(String, String), EntityMetrics>;

/// Reads the text format.
pub(crate) fn read(text: &str) -> MetricsByEntity {
    let mut all = MetricsByEntity::new();
    for line in text.lines().filter_map(Line::read) {
        let Some(measure) = MEASURES.iter().find(|(name, _)| *name == line.name).map(|(_, measure)| *measure)
        else {
            continue;
        };
        let (Some(entity), Some(kind)) = (line.label("entity"), line.label("kind")) else { continue };
        let name = match line.label("namespace") {
            Some(namespace) if namespace != DEFAULT_NAMESPACE => format!("{namespace}{OF_NAMESPACE}{entity}"),
            _ => entity.to_owned(),
        };
        let reading = all.entry((name, kind.to_owned())).or_default();
        match measure {
            Measure::Messages => {
                if let Some(place) = line.label("state").and_then(|state| reading.place(state)) {
                    *place = whole(line.value);
                }
            }
            Measure::Incoming => reading.incoming = line.value,
            Measure::Outgoing => reading.outgoing = line.value,
            Measure::OldestAge => reading.oldest_age = Some(line.value).filter(|age| age.is_finite()),
        }
    }
    all
}

/// Between the name of a namespace and that of an entity; neither has it.
pub(super) const OF_NAMESPACE: &str = ": ";

/// Whether the broker says that it does not show all of its entities.
pub(crate) fn leaves_out(text: &str) -> bool {
    text.lines()
        .filter_map(Line::read)
        .any(|line| line.name == "ferrybus_entities_left_out" && line.value > 0.0)
}

#[derive(Clone, Copy)]
enum Measure {
    Messages,
    Incoming,
    Outgoing,
    OldestAge,
}

const MEASURES: [(&str, Measure); 4] = [
    ("ferrybus_entity_messages", Measure::Messages),
    ("ferrybus_entity_incoming_messages_total", Measure::Incoming),
    ("ferrybus_entity_outgoing_messages_total", Measure::Outgoing),
    ("ferrybus_entity_oldest_message_age_seconds", Measure::OldestAge),
];

impl EntityMetrics {
    fn place(&mut self, state: &str) -> Option<&mut u64> {
        Some(match state {
            "active" => &mut self.active,
            "scheduled" => &mut self.scheduled,
            "deferred" => &mut self.deferred,
            "dead_letter" => &mut self.dead_letter,
            "transfer_dead_letter" => &mut self.transfer_dead_letter,
            "locked" => &mut self.locked,
            _ => return None,
        })
    }
}

/// A count that was written as a number with a point, as the format has it.
fn whole(value: f64) -> u64 {
    if value.is_finite() && value > 0.0 { format!("{value:.0}").parse().unwrap_or(u64::MAX) } else { 0 }
}

/// `name{label="value",…} number [time]`.
struct Line<'t> {
    name: &'t str,
    labels: Vec<(&'t str, String)>,
    value: f64,
}

impl<'t> Line<'t> {
    fn read(line: &'t str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' ', '\t'])?;
        let (name, mut rest) = line.split_at_checked(end)?;
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = read_labels(inside, &mut labels)?;
        }
        let value = rest.split_whitespace().next()?.parse().ok()?;
        Some(Self { name, labels, value })
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

/// Rest behind the closing brace.
fn read_labels<'t>(mut rest: &'t str, labels: &mut Vec<(&'t str, String)>) -> Option<&'t str> {
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        let (name, quoted) = rest.split_once('=')?;
        let mut value = String::new();
        let mut characters = quoted.trim_start().strip_prefix('"')?.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(match characters.next()? {
                    'n' => '\n',
                    other => other,
                }),
                letter => value.push(letter),
            }
        }
        labels.push((name.trim(), value));
        rest = characters.as_str();
    }
}

#[cfg(test)]
mod tests;
