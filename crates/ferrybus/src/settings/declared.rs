//! Which file speaks of which entity, and of what of it.
//!
//! Invariant: names are found without regard to their case.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use broker_core::EntityKind;
use serde::Deserialize;

use super::{QueueEntry, Settings, SubscriptionEntry, TopicEntry};
use crate::{
    difference::Named,
    emulator::{self, Emulator},
};

/// Policy at start for an entity that differs from its file.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnDifference {
    /// It stays as it is, and the log says what differs.
    Keep,
    /// It is changed as the file says.
    Apply,
    /// The broker does not start.
    Refuse,
}

/// Source of a declaration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Source {
    /// `None`: on the command line.
    pub(crate) path: Option<PathBuf>,
    /// It is the `Config.json` of the Azure emulator.
    pub(crate) is_emulators: bool,
}

/// Declaration of one entity.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) source: Source,
    /// The properties.
    pub(crate) named: Named,
    /// Whether the rules of a subscription are said.
    pub(crate) rules: bool,
}

/// Declarations of entities, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declarations {
    by_name: BTreeMap<String, Declared>,
    /// An emulator's `Config.json` was read.
    has_emulator: bool,
}

impl Declarations {
    /// Declaration of the entity of this name.
    pub(crate) fn of(&self, name: &str) -> Option<&Declared> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    /// Whether an emulator's `Config.json` is among the files.
    pub(crate) fn has_emulator(&self) -> bool {
        self.has_emulator
    }

    fn add(&mut self, name: &str, declared: Declared) {
        self.by_name.insert(name.to_ascii_lowercase(), declared);
    }

    /// Those of a TOML file: only what it names is said.
    pub(super) fn of_settings(settings: &Settings) -> Self {
        let mut all = Self::default();
        let source =
            Source { path: settings.file.as_ref().map(|file| file.path.clone()), is_emulators: false };
        let declared = |named, rules| Declared { source: source.clone(), named: Named::Only(named), rules };
        for queue in &settings.queue {
            all.add(&queue.name, declared(queue.named(), false));
        }
        for topic in &settings.topic {
            all.add(&topic.name, declared(topic.named(), false));
            for subscription in &topic.subscription {
                let name = format!("{}/Subscriptions/{}", topic.name, subscription.name);
                all.add(&name, declared(subscription.named(), subscription.rule.is_some()));
            }
        }
        all
    }

    /// Adds those of an emulator's file: all that its schema has is said, for what it leaves out has a default.
    pub(super) fn add_emulator(&mut self, path: &Path, emulator: &Emulator) {
        self.has_emulator = true;
        let source = Source { path: Some(path.to_owned()), is_emulators: true };
        let declared = |kind: EntityKind| Declared {
            source: source.clone(),
            named: emulator::named(kind),
            rules: kind == EntityKind::Subscription,
        };
        for (name, _) in &emulator.queues {
            self.add(name, declared(EntityKind::Queue));
        }
        for plan in &emulator.topics {
            self.add(&plan.name, declared(plan.kind));
        }
    }
}

/// The keys whose values are there.
fn given<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<&'static str> {
    keys.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
}

impl QueueEntry {
    fn named(&self) -> Vec<&'static str> {
        // Taken apart, so that a new key is not forgotten here.
        let Self {
            name: _,
            lock_duration,
            hold,
            max_delivery_count,
            requires_session,
            enable_partitioning,
            default_time_to_live,
            dead_letter_on_expiration,
            max_message_bytes,
            max_size_bytes,
            requires_duplicate_detection,
            duplicate_detection_window,
            forward_to,
            forward_dead_lettered_to,
            auto_delete_on_idle,
            status,
            user_metadata,
        } = self;
        given([
            ("lock_duration", lock_duration.is_some()),
            ("hold", hold.is_some()),
            ("max_delivery_count", max_delivery_count.is_some()),
            ("requires_session", requires_session.is_some()),
            ("enable_partitioning", enable_partitioning.is_some()),
            ("default_time_to_live", default_time_to_live.is_some()),
            ("dead_letter_on_expiration", dead_letter_on_expiration.is_some()),
            ("max_message_bytes", max_message_bytes.is_some()),
            ("max_size_bytes", max_size_bytes.is_some()),
            ("requires_duplicate_detection", requires_duplicate_detection.is_some()),
            ("duplicate_detection_window", duplicate_detection_window.is_some()),
            ("forward_to", forward_to.is_some()),
            ("forward_dead_lettered_to", forward_dead_lettered_to.is_some()),
            ("auto_delete_on_idle", auto_delete_on_idle.is_some()),
            ("status", status.is_some()),
            ("user_metadata", user_metadata.is_some()),
        ])
    }
}

impl TopicEntry {
    fn named(&self) -> Vec<&'static str> {
        let Self {
            name: _,
            enable_partitioning,
            default_time_to_live,
            max_message_bytes,
            max_size_bytes,
            requires_duplicate_detection,
            duplicate_detection_window,
            auto_delete_on_idle,
            status,
            user_metadata,
            subscription: _,
        } = self;
        given([
            ("enable_partitioning", enable_partitioning.is_some()),
            ("default_time_to_live", default_time_to_live.is_some()),
            ("max_message_bytes", max_message_bytes.is_some()),
            ("max_size_bytes", max_size_bytes.is_some()),
            ("requires_duplicate_detection", requires_duplicate_detection.is_some()),
            ("duplicate_detection_window", duplicate_detection_window.is_some()),
            ("auto_delete_on_idle", auto_delete_on_idle.is_some()),
            ("status", status.is_some()),
            ("user_metadata", user_metadata.is_some()),
        ])
    }
}

impl SubscriptionEntry {
    fn named(&self) -> Vec<&'static str> {
        let Self {
            name: _,
            lock_duration,
            hold,
            max_delivery_count,
            default_time_to_live,
            dead_letter_on_expiration,
            dead_letter_on_filter_error,
            requires_session,
            forward_to,
            forward_dead_lettered_to,
            auto_delete_on_idle,
            status,
            user_metadata,
            rule: _,
        } = self;
        given([
            ("lock_duration", lock_duration.is_some()),
            ("hold", hold.is_some()),
            ("max_delivery_count", max_delivery_count.is_some()),
            ("default_time_to_live", default_time_to_live.is_some()),
            ("dead_letter_on_expiration", dead_letter_on_expiration.is_some()),
            ("dead_letter_on_filter_error", dead_letter_on_filter_error.is_some()),
            ("requires_session", requires_session.is_some()),
            ("forward_to", forward_to.is_some()),
            ("forward_dead_lettered_to", forward_dead_lettered_to.is_some()),
            ("auto_delete_on_idle", auto_delete_on_idle.is_some()),
            ("status", status.is_some()),
            ("user_metadata", user_metadata.is_some()),
        ])
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "`{}`", path.display()),
            None => f.write_str("the command line"),
        }
    }
}
