//! Which file speaks of which entity, and of what of it.
//!
//! Invariant: names are found without regard to their case.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use broker_core::EntityKind;
use serde::Deserialize;

use super::{QueueEntry, Settings, TopicEntry};
use crate::{
    difference::Named,
    emulator::{self, EmulatorNamespace},
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

    /// Adds a queue of a TOML file: only what it names is said.
    pub(super) fn add_queue(&mut self, settings: &Settings, queue: &QueueEntry) {
        self.add(&queue.name, of_settings(settings, queue.keys(), false));
    }

    /// Adds a topic of a TOML file with its subscriptions.
    pub(super) fn add_topic(&mut self, settings: &Settings, topic: &TopicEntry) {
        self.add(&topic.name, of_settings(settings, topic.keys(), false));
        for subscription in &topic.inner {
            let name = format!("{}/Subscriptions/{}", topic.name, subscription.name);
            self.add(&name, of_settings(settings, subscription.keys(), subscription.inner.is_some()));
        }
    }

    /// Adds those of an emulator's file: all that its schema has is said, for what it leaves out has a default.
    pub(super) fn add_emulator(&mut self, path: &Path, emulator: &EmulatorNamespace) {
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

fn of_settings(settings: &Settings, named: Vec<&'static str>, rules: bool) -> Declared {
    let path = settings.file.as_ref().map(|file| file.path.clone());
    Declared { source: Source { path, is_emulators: false }, named: Named::Only(named), rules }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "`{}`", path.display()),
            None => f.write_str("the command line"),
        }
    }
}
