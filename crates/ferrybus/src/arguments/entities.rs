//! `queue`, `topic`, `subscription` and `rule`.
//!
//! Invariant: each property of an entity is an option of its `create` and `update`, by the name it has in JSON.

use std::marker::PhantomData;

use broker_core::EntityKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand, parser::ValueSource};

use super::ConnectArguments;
use crate::property::{self, Form, Property, PropertyText as _, Wanted};

/// A kind of entity, as a type, so that each has its own options.
pub(crate) trait Kind {
    const KIND: EntityKind;
}

/// Queues.
#[derive(Debug)]
pub(crate) struct Queue;
/// Topics.
#[derive(Debug)]
pub(crate) struct Topic;
/// Subscriptions.
#[derive(Debug)]
pub(crate) struct Subscription;

impl Kind for Queue {
    const KIND: EntityKind = EntityKind::Queue;
}

impl Kind for Topic {
    const KIND: EntityKind = EntityKind::Topic;
}

impl Kind for Subscription {
    const KIND: EntityKind = EntityKind::Subscription;
}

/// The properties that were given.
#[derive(Debug)]
pub(crate) struct Properties<K> {
    pub(crate) given: Vec<(&'static Property, Wanted)>,
    kind: PhantomData<K>,
}

impl<K: Kind> Args for Properties<K> {
    fn augment_args(command: Command) -> Command {
        property::of(K::KIND).fold(command, |command, property| {
            let id = property.key;
            let arg = Arg::new(id).long(id.replace('_', "-")).help(property.help).help_heading("Properties");
            let form = property.form();
            let arg = match form {
                Form::Span => arg.value_name("TIME"),
                Form::Flag => {
                    arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
                }
                Form::Count => arg.value_name("NUMBER"),
                Form::Bytes(_) => arg.value_name("BYTES"),
                Form::Status | Form::LockLifetime => {
                    arg.value_name("WORD").help(format!("{}: {}", property.help, form.words().join(", ")))
                }
                Form::Text => arg.value_name("TEXT"),
                Form::Entity => arg.value_name("NAME"),
            };
            command.arg(arg.value_parser(move |text: &str| form.read(text)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<K: Kind> FromArgMatches for Properties<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let was_given =
            |property: &&Property| matches.value_source(property.key) == Some(ValueSource::CommandLine);
        let given = property::of(K::KIND).filter(was_given);
        let given =
            given.filter_map(|property| Some((property, matches.get_one::<Wanted>(property.key)?.clone())));
        Ok(Self { given: given.collect(), kind: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Of queues and topics.
#[derive(Debug, Subcommand)]
pub(crate) enum EntityCommand<K: Kind> {
    /// Create one; its properties have their defaults unless given.
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        properties: Properties<K>,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Change the properties that are given, and nothing else.
    Update {
        /// Its name
        name: String,
        #[command(flatten)]
        properties: Properties<K>,
        /// Write over what another has changed meanwhile
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Show its properties and counts.
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// List all, with their counts.
    List {
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Delete it with all its messages.
    Delete {
        /// Its name
        name: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionCommand {
    /// Create one; its properties have their defaults unless given, and one rule lets everything in.
    Create {
        /// Name of the topic
        topic: String,
        /// Its name
        name: String,
        #[command(flatten)]
        properties: Properties<Subscription>,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Change the properties that are given, and nothing else.
    Update {
        /// Name of the topic
        topic: String,
        /// Its name
        name: String,
        #[command(flatten)]
        properties: Properties<Subscription>,
        /// Write over what another has changed meanwhile
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Show its properties and counts.
    Show {
        /// Name of the topic
        topic: String,
        /// Its name
        name: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// List those of a topic, with their counts.
    List {
        /// Name of the topic
        topic: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Delete it with all its messages.
    Delete {
        /// Name of the topic
        topic: String,
        /// Its name
        name: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Add one to a subscription.
    Create(RuleArguments),
    /// Replace its filter, its action, or both.
    Update {
        #[command(flatten)]
        rule: RuleArguments,
        /// Write over what another has changed meanwhile
        #[arg(long)]
        force: bool,
    },
    /// Show it.
    Show {
        #[command(flatten)]
        rule: RulePath,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// List those of a subscription.
    List {
        /// Name of the topic
        topic: String,
        /// Name of the subscription
        subscription: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Take it away.
    Delete {
        #[command(flatten)]
        rule: RulePath,
        #[command(flatten)]
        connect: ConnectArguments,
    },
}

/// Which rule.
#[derive(Args, Debug)]
pub(crate) struct RulePath {
    /// Name of the topic
    pub(crate) topic: String,
    /// Name of the subscription
    pub(crate) subscription: String,
    /// Its name
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct RuleArguments {
    #[command(flatten)]
    pub(crate) rule: RulePath,
    /// Filter in the SQL language, such as `amount > 100`
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["correlation", "all", "none"])]
    pub(crate) sql: Option<String>,
    /// Filter that compares: a field (`correlation-id`, `message-id`, `to`, `reply-to`, `label`, `session-id`,
    /// `reply-to-session-id`, `content-type`) or a property of the message's own; `:=` instead of `=` for a number,
    /// true or false. May be given several times
    #[arg(long, value_name = "NAME=VALUE", conflicts_with_all = ["all", "none"])]
    pub(crate) correlation: Vec<String>,
    /// Filter that lets everything in
    #[arg(long, conflicts_with = "none")]
    pub(crate) all: bool,
    /// Filter that lets nothing in
    #[arg(long)]
    pub(crate) none: bool,
    /// Action on the copy, in the SQL language; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    pub(crate) action: Option<String>,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}
