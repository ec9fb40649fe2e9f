//! What a file wants of an entity, what the broker has, and the difference.
//!
//! Invariant: a property that a file cannot speak of is never changed.

use std::{collections::BTreeMap, time::Duration};

use broker_admin::{client::Described, iso_8601};
use broker_core::{EntityKind, EntitySettings, EntityStatus, Rule};

use super::limits::Limits;
use crate::{client::management::Place, property, property::Property};

/// What the broker has.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) limits: Limits,
    /// By name in lower case.
    entities: BTreeMap<String, (Place, Described)>,
    rules: BTreeMap<String, Vec<Rule>>,
}

impl Found {
    /// Nothing yet, of a broker with these limits.
    pub(super) const fn of(limits: Limits) -> Self {
        Self { limits, entities: BTreeMap::new(), rules: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, place: Place, entity: Described) {
        self.entities.insert(place.path.to_ascii_lowercase(), (place, entity));
    }

    pub(super) fn add_rules(&mut self, subscription: &Place, rules: Vec<Rule>) {
        self.rules.insert(subscription.path.to_ascii_lowercase(), rules);
    }

    pub(super) fn has(&self, place: &Place) -> bool {
        self.get(place).is_some()
    }

    pub(super) fn get(&self, place: &Place) -> Option<&(Place, Described)> {
        self.entities.get(&place.path.to_ascii_lowercase())
    }

    pub(super) fn rules(&self, subscription: &Place) -> &[Rule] {
        self.rules.get(&subscription.path.to_ascii_lowercase()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Place> {
        self.entities.values().map(|(place, _)| place)
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.all().filter(|place| place.kind == EntityKind::Topic).map(|place| place.path.as_str())
    }
}

/// A property and the text of its element before and after; `None`: the element is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Change {
    pub(super) key: &'static str,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    pub(super) is_fixed: bool,
}

/// Everything that a file says of an entity, what it leaves out included: that has its default.
pub(super) fn wanted(
    kind: EntityKind,
    settings: &EntitySettings,
) -> Vec<(&'static Property, Option<String>)> {
    let spoken = property::of(kind).filter(|property| speaks_of(property.key, settings));
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

const SPOKEN_OF: [&str; 12] = [
    "auto_delete_on_idle",
    "dead_letter_on_expiration",
    "dead_letter_on_filter_error",
    "default_time_to_live",
    "duplicate_detection_window",
    "forward_dead_lettered_to",
    "forward_to",
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
        "max_delivery_count" => Some(settings.max_delivery_count.to_string()),
        "default_time_to_live" => time(settings.default_time_to_live),
        "dead_letter_on_expiration" => flag(settings.dead_letter_on_expiration),
        "dead_letter_on_filter_error" => flag(settings.dead_letter_on_filter_error),
        "requires_session" => flag(settings.requires_session),
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
pub(super) fn changes(
    entity: Option<&Described>,
    kind: EntityKind,
    settings: &EntitySettings,
) -> Vec<Change> {
    let changes = wanted(kind, settings).into_iter().filter_map(|(property, after)| {
        let before = entity.and_then(|entity| entity.text(property.element)).map(str::to_owned);
        let is_same = property.form.same(before.as_deref(), after.as_deref());
        let change = Change { key: property.key, before, after, is_fixed: property.is_fixed };
        (!is_same).then_some(change)
    });
    changes.collect()
}
