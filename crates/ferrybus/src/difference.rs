//! Difference between an entity as a file declares it and as the broker has it.
//!
//! Invariant: a property that a file cannot speak of is never changed.

use std::fmt;

use broker_admin::{client::Described, iso_8601};
use broker_core::{
    EntityKind, EntityProperty, EntityReport, EntitySettings, PropertyType, Rule, SettingValue,
};
use broker_server::EntityPlan;

use crate::{
    property,
    property::{Property, PropertyText as _},
};

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
        match property.property {
            // Without a value of its own, the broker's applies.
            EntityProperty::MaxMessageBytes => Some((self.max_message_bytes >> 10).max(1).to_string()),
            _ => text(property, &self.settings),
        }
    }
}

/// A property and the text of its element before and after; `None`: the element is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Change {
    pub(crate) property: &'static Property,
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

impl Change {
    /// A value as people write it; `-` where there is none.
    fn told(&self, text: Option<&str>) -> String {
        text.map_or_else(|| "-".to_owned(), |text| self.property.form().told(text))
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
        write!(f, "{}  {} -> {}", self.property.key, self.told_before(), self.told_after())?;
        if self.property.is_fixed && self.before.is_some() {
            f.write_str("  (fixed at creation)")
        } else {
            Ok(())
        }
    }
}

/// Everything that a file says of an entity.
pub(crate) fn wanted(
    kind: EntityKind,
    settings: &EntitySettings,
    named: &Named,
) -> Vec<(&'static Property, Option<String>)> {
    let spoken = property::of(kind).filter(|property| match named {
        Named::All => speaks_of(property, settings),
        Named::Only(keys) => keys.contains(&property.key),
    });
    spoken.map(|property| (property, text(property, settings))).collect()
}

/// Whether a file says anything of that property. Without a word of the largest message the broker's own limit counts,
/// which nobody here knows. What an operator has disabled or noted stays, unless the file says otherwise.
fn speaks_of(property: &Property, settings: &EntitySettings) -> bool {
    match property.property {
        EntityProperty::Status | EntityProperty::UserMetadata | EntityProperty::MaxMessageBytes => {
            property.get(settings) != property.get(&EntitySettings::default())
        }
        _ => property.is_in_files(),
    }
}

/// The text of the property's element; `None`: it is to be missing.
fn text(property: &Property, settings: &EntitySettings) -> Option<String> {
    match property.get(settings) {
        SettingValue::Time(time) => Some(iso_8601(time)),
        SettingValue::Flag(on) => Some(on.to_string()),
        SettingValue::Count(count) => Some(count.to_string()),
        SettingValue::Status(status) => Some(status.word().to_owned()),
        SettingValue::LockLifetime(lifetime) => Some(lifetime.word().to_owned()),
        SettingValue::Text(text) => text.map(String::from),
        SettingValue::Bytes(None) if property.property == EntityProperty::MaxSizeBytes => {
            Some(UNLIMITED.to_string())
        }
        SettingValue::Bytes(bytes) => {
            let unit = if let PropertyType::Bytes(unit) = property.value_type { unit } else { 1 };
            bytes.map(|bytes| bytes.div_ceil(unit).to_string())
        }
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
        let is_same = property.form().same(before.as_deref(), after.as_deref());
        let change = Change { property, before, after };
        (!is_same).then_some(change)
    });
    changes.collect()
}

/// Gives `settings` the value that `wanted` has for this property.
pub(crate) fn set(property: &Property, settings: &mut EntitySettings, wanted: &EntitySettings) {
    property.set(settings, property.get(wanted)).expect("both values are of the property's type");
    // The text in which a client of the administration API had named a target says another one now.
    settings.other.remove(property.element);
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
