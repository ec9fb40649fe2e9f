//! The part of a scrape that grows with the number of entities. It is written without the registry's detours, for with
//! ten thousand entities it has 150,000 samples.
//!
//! Invariant: each family stands together, with its samples in the order of the entities.

use std::fmt::Write as _;

use super::{COUNTERS, ShownEntity};
use broker_core::Timestamp;

/// Bytes of a sample besides the entity's name.
const SAMPLE_BYTES: usize = 96;

/// The text of all families, one piece each.
pub(super) fn families(entities: &[ShownEntity], now: Timestamp) -> Vec<String> {
    let labels: Vec<String> = entities.iter().map(labels).collect();
    let shown: Vec<(&ShownEntity, &str)> =
        entities.iter().zip(&labels).map(|(entity, labels)| (entity, labels.as_str())).collect();
    let mut families = vec![states(&shown)];
    for (index, (name, help)) in COUNTERS.into_iter().enumerate() {
        let mut out = head(&format!("entity_{name}"), "counter", None, help, &shown);
        let name = format!("entity_{name}_total");
        for (entity, labels) in &shown {
            let count = entity.report.counters.get(index).copied().unwrap_or_default();
            sample(&mut out, &name, labels, "", format_args!("{count}"));
        }
        families.push(out);
    }
    let help = "Bytes that an entity holds, dead letters included";
    let mut sizes = head("entity_size_bytes", "gauge", Some("bytes"), help, &shown);
    for (entity, labels) in &shown {
        sample(&mut sizes, "entity_size_bytes", labels, "", format_args!("{}", entity.report.bytes));
    }
    families.push(sizes);
    let help = "Age of an entity's oldest message, whatever its state; 0 without messages";
    families
        .push(ages(&shown, "entity_oldest_message_age_seconds", help, now, |entity| entity.report.oldest));
    let help = "Time for which a link has held the message of an entity that was delivered first, where its lock has no \
                timer; 0 without such messages";
    families.push(ages(&shown, "entity_oldest_held_message_age_seconds", help, now, |entity| {
        entity.report.held_since
    }));
    families
}

/// Seconds since an event; 0 where there was none.
fn ages(
    shown: &[(&ShownEntity, &str)],
    name: &str,
    help: &str,
    now: Timestamp,
    since: impl Fn(&ShownEntity) -> Option<Timestamp>,
) -> String {
    let mut out = head(name, "gauge", Some("seconds"), help, shown);
    for (entity, labels) in shown {
        let age = now.as_millis().saturating_sub(since(entity).unwrap_or(now).as_millis());
        let (seconds, millis) = (age / 1_000, age % 1_000);
        sample(&mut out, name, labels, "", format_args!("{seconds}.{millis:03}"));
    }
    out
}

fn states(shown: &[(&ShownEntity, &str)]) -> String {
    let help = "Messages of an entity by state; locked ones are among the active and the deferred";
    let mut out = head("entity_messages", "gauge", None, help, shown);
    for (entity, labels) in shown {
        for (state, count) in entity.report.states {
            let state = format!(",state=\"{state}\"");
            sample(&mut out, "entity_messages", labels, &state, format_args!("{count}"));
        }
    }
    out
}

/// A family's first lines, with room for its samples.
fn head(name: &str, kind: &str, unit: Option<&str>, help: &str, shown: &[(&ShownEntity, &str)]) -> String {
    let samples = if name == "entity_messages" { 6 } else { 1 };
    let bytes = shown.iter().map(|(_, labels)| labels.len() + SAMPLE_BYTES).sum::<usize>();
    let mut out = String::with_capacity(1_024 + samples * bytes);
    put(&mut out, format_args!("# HELP ferrybus_{name} {help}.\n# TYPE ferrybus_{name} {kind}\n"));
    if let Some(unit) = unit {
        put(&mut out, format_args!("# UNIT ferrybus_{name} {unit}\n"));
    }
    out
}

fn sample(out: &mut String, name: &str, labels: &str, more: &str, value: std::fmt::Arguments<'_>) {
    for part in ["ferrybus_", name, "{", labels, more, "} "] {
        out.push_str(part);
    }
    put(out, value);
    out.push('\n');
}

/// The labels that all samples of an entity have.
fn labels(entity: &ShownEntity) -> String {
    let mut out = String::with_capacity(entity.name.len() + 64);
    put(&mut out, format_args!("namespace=\"{}\",entity=\"", entity.namespace));
    for c in entity.name.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    put(&mut out, format_args!("\",kind=\"{}\"", entity.kind));
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes everything.
    let _never = out.write_fmt(text);
}
