//! Difference between an entity as a file declares it and as the broker has it.
//!
//! Invariant: a property that a file cannot speak of is never changed.

use std::{fmt, time::Duration};

use broker_admin::{client::Described, iso_8601};
use broker_core::{EntityKind, EntityReport, EntitySettings, EntityStatus, LockLifetime, Rule};
use broker_server::EntityPlan;

use crate::{property, property::Property};

/// Of which properties a source speaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Named {
    /// Of all that a file can speak of: what it leaves out has its default.
    All,
    /// Of these, by their keys.
    Only(Vec<&'static str>),
}

/// Source of the properties of an entity, as texts of the elements of the administration API.
pub(crate) trait Shown {
    /// The text; `None`: the element is not there.
    fn shown(&self, property: &Property) -> Option<String>;
}

impl Shown for Described {
    fn shown(&self, property: &Property) -> Option<String> {
        property.text(self).map(str::to_owned)
    }
}

impl Shown for EntityReport {
    fn shown(&self, property: &Property) -> Option<String> {
        match property.key {
            // Without a value of its own, the broker's applies.
            "max_message_bytes" => Some((self.max_message_bytes >> 10).max(1).to_string()),
            key => text(key, &self.settings),
        }
    }
}

/// A property and the text of its element before and after; `None`: the element is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    pub(crate) key: &'static str,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) is_fixed: bool,
}

impl Change {
    /// A value as people write it; `-` where there is none.
    fn told(&self, text: Option<&str>) -> String {
        let form = property::of_key(self.key).map(|property| property.form);
        match (form, text) {
            (Some(form), Some(text)) => form.told(text),
            _ => "-".to_owned(),
        }
    }

    /// The value that the broker has.
    pub(crate) fn told_before(&self) -> String {
        self.told(self.before.as_deref())
    }

    /// The value that the file has.
    pub(crate) fn told_after(&self) -> String {
        self.told(self.after.as_deref())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {} -> {}", self.key, self.told_before(), self.told_after())?;
        if self.is_fixed && self.before.is_some() { f.write_str("  (fixed at creation)") } else { Ok(()) }
    }
}

/// Everything that a file says of an entity.
pub(crate) fn wanted(
    kind: EntityKind,
    settings: &EntitySettings,
    named: &Named,
) -> Vec<(&'static Property, Option<String>)> {
    let spoken = property::of(kind).filter(|property| match named {
        Named::All => speaks_of(property.key, settings),
        Named::Only(keys) => keys.contains(&property.key),
    });
    spoken.map(|property| (property, text(property.key, settings))).collect()
}

/// Whether a file says anything of that property. Without a word of the largest message the broker's own limit counts,
/// which nobody here knows. What an operator has disabled or noted stays, unless the file says otherwise.
fn speaks_of(key: &str, settings: &EntitySettings) -> bool {
    match key {
        "status" => settings.status != EntityStatus::Active,
        "user_metadata" => settings.user_metadata.is_some(),
        "max_message_bytes" => settings.max_message_bytes.is_some(),
        key => SPOKEN_OF.contains(&key),
    }
}

const SPOKEN_OF: [&str; 14] = [
    "auto_delete_on_idle",
    "dead_letter_on_expiration",
    "dead_letter_on_filter_error",
    "default_time_to_live",
    "duplicate_detection_window",
    "enable_partitioning",
    "forward_dead_lettered_to",
    "forward_to",
    "hold",
    "lock_duration",
    "max_delivery_count",
    "max_size_bytes",
    "requires_duplicate_detection",
    "requires_session",
];

/// The text of the property's element; `None`: it is to be missing.
fn text(key: &str, settings: &EntitySettings) -> Option<String> {
    let time = |time: Option<Duration>| Some(iso_8601(time));
    let flag = |on: bool| Some(on.to_string());
    let name = |name: &Option<Box<str>>| name.as_deref().map(str::to_owned);
    match key {
        "status" => Some(status(settings.status).to_owned()),
        "user_metadata" => name(&settings.user_metadata),
        "lock_duration" => time(Some(settings.lock_duration)),
        "hold" => Some(hold(settings.hold).to_owned()),
        "max_delivery_count" => Some(settings.max_delivery_count.to_string()),
        "default_time_to_live" => time(settings.default_time_to_live),
        "dead_letter_on_expiration" => flag(settings.dead_letter_on_expiration),
        "dead_letter_on_filter_error" => flag(settings.dead_letter_on_filter_error),
        "requires_session" => flag(settings.requires_session),
        "enable_partitioning" => flag(settings.enable_partitioning),
        "requires_duplicate_detection" => flag(settings.requires_duplicate_detection),
        "duplicate_detection_window" => time(Some(settings.duplicate_detection_window)),
        "forward_to" => name(&settings.forward_to),
        "forward_dead_lettered_to" => name(&settings.forward_dead_lettered_to),
        "auto_delete_on_idle" => time(settings.auto_delete_on_idle),
        "max_size_bytes" => {
            let megabytes = settings.max_size_bytes.map_or(UNLIMITED, |bytes| bytes.div_ceil(1 << 20));
            Some(megabytes.to_string())
        }
        "max_message_bytes" => settings.max_message_bytes.map(|bytes| bytes.div_ceil(1 << 10).to_string()),
        _ => None,
    }
}

const fn hold(hold: LockLifetime) -> &'static str {
    match hold {
        LockLifetime::Link => "Link",
        LockLifetime::Lock => "Lock",
    }
}

const fn status(status: EntityStatus) -> &'static str {
    match status {
        EntityStatus::Active => "Active",
        EntityStatus::Disabled => "Disabled",
        EntityStatus::SendDisabled => "SendDisabled",
        EntityStatus::ReceiveDisabled => "ReceiveDisabled",
    }
}

/// Megabytes that the API shows and takes where a file sets no limit.
const UNLIMITED: u64 = 81_920;

/// The properties that differ.
pub(crate) fn changes(
    entity: Option<&dyn Shown>,
    kind: EntityKind,
    settings: &EntitySettings,
    named: &Named,
) -> Vec<Change> {
    let changes = wanted(kind, settings, named).into_iter().filter_map(|(property, after)| {
        let before = entity.and_then(|entity| entity.shown(property));
        let is_same = property.form.same(before.as_deref(), after.as_deref());
        let change = Change { key: property.key, before, after, is_fixed: property.is_fixed };
        (!is_same).then_some(change)
    });
    changes.collect()
}

/// Gives `settings` the value that `wanted` has for this property.
pub(crate) fn set(key: &str, settings: &mut EntitySettings, wanted: &EntitySettings) {
    let wanted = wanted.clone();
    match key {
        "status" => settings.status = wanted.status,
        "user_metadata" => settings.user_metadata = wanted.user_metadata,
        "lock_duration" => settings.lock_duration = wanted.lock_duration,
        "hold" => settings.hold = wanted.hold,
        "max_delivery_count" => settings.max_delivery_count = wanted.max_delivery_count,
        "default_time_to_live" => settings.default_time_to_live = wanted.default_time_to_live,
        "dead_letter_on_expiration" => settings.dead_letter_on_expiration = wanted.dead_letter_on_expiration,
        "dead_letter_on_filter_error" => {
            settings.dead_letter_on_filter_error = wanted.dead_letter_on_filter_error;
        }
        "requires_session" => settings.requires_session = wanted.requires_session,
        "requires_duplicate_detection" => {
            settings.requires_duplicate_detection = wanted.requires_duplicate_detection;
        }
        "duplicate_detection_window" => {
            settings.duplicate_detection_window = wanted.duplicate_detection_window;
        }
        "enable_partitioning" => settings.enable_partitioning = wanted.enable_partitioning,
        "forward_to" => settings.forward_to = wanted.forward_to,
        "forward_dead_lettered_to" => settings.forward_dead_lettered_to = wanted.forward_dead_lettered_to,
        "auto_delete_on_idle" => settings.auto_delete_on_idle = wanted.auto_delete_on_idle,
        "max_size_bytes" => settings.max_size_bytes = wanted.max_size_bytes,
        "max_message_bytes" => settings.max_message_bytes = wanted.max_message_bytes,
        _ => {}
    }
    // The text in which a client of the administration API had named a target says another one now.
    if let Some(property) = property::of_key(key) {
        settings.other.remove(property.element);
    }
}

/// The rules of a planned subscription: those of the file, or the one that lets everything in.
pub(crate) fn rules_of(plan: &EntityPlan) -> Vec<Rule> {
    plan.rules.clone().unwrap_or_else(|| vec![Rule::default_rule()])
}

/// Change that a rule needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RuleChange {
    Add(Rule),
    Replace { before: Rule, after: Rule },
    Remove(Rule),
    Same(Rule),
}

/// New and changed rules first, so that at no time fewer messages get in than before and after.
pub(crate) fn rule_changes(wanted: &[Rule], found: &[Rule]) -> Vec<RuleChange> {
    let named =
        |rules: &[Rule], name: &str| rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(name)).cloned();
    let changes = wanted.iter().cloned().map(|rule| match named(found, &rule.name) {
        None => RuleChange::Add(rule),
        Some(before) if before.filter == rule.filter && before.action == rule.action => {
            RuleChange::Same(rule)
        }
        Some(before) => RuleChange::Replace { before, after: rule },
    });
    let surplus = found.iter().filter(|rule| named(wanted, &rule.name).is_none());
    changes.chain(surplus.cloned().map(RuleChange::Remove)).collect()
}

#[cfg(test)]
mod tests;
