//! `namespace`.
//!
//! Invariant: each limit of a namespace is an option of `create` and `set`, by the name it has in JSON.

use std::path::PathBuf;

use broker_core::NamespaceLimit;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};

use super::ConnectArguments;
use crate::settings::{LimitNumber, NAMESPACE_WEIGHT, hostname, namespace_limit};

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Create one. Nothing is done if it is there with just these settings.
    Create {
        /// Its name: letters, digits, `-` and `_`
        name: String,
        #[command(flatten)]
        given: NamespaceArguments,
        /// Shard in which it lives from then on; without one, the broker chooses the least loaded
        #[arg(long, value_name = "NUMBER")]
        shard: Option<u16>,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Show its settings and what it uses of its limits.
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// List all, with what they use.
    List {
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Change the settings that are given, and nothing else.
    Set {
        /// Its name
        name: String,
        #[command(flatten)]
        given: NamespaceArguments,
        /// Close its connections and let nobody connect, until `--no-hold`
        #[arg(long)]
        hold: bool,
        /// Let clients connect again
        #[arg(long, conflicts_with = "hold")]
        no_hold: bool,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Delete it with all its entities and messages.
    Delete {
        /// Its name
        name: String,
        /// Really do it
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Create, list and delete keys of a namespace.
    #[command(subcommand)]
    Key(NamespaceKeyCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceKeyCommand {
    /// Create one, and print the connection string with it. The broker shows the text of a key this once.
    Create {
        /// Name of the namespace
        namespace: String,
        /// Its name, such as `RootManageSharedAccessKey`
        key: String,
        /// Its rights, of `send`, `listen` and `manage`, which includes the other two
        #[arg(long, value_name = "RIGHTS", value_delimiter = ',', required = true, value_parser = ["send", "listen", "manage"])]
        rights: Vec<String>,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// List those of a namespace with their rights, without their texts.
    List {
        /// Name of the namespace
        namespace: String,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Delete it; links that it has let in are closed.
    Delete {
        /// Name of the namespace
        namespace: String,
        /// Its name
        key: String,
        #[command(flatten)]
        admin: AdminArguments,
    },
}

/// Address of the broker and log-in of an administrator.
#[derive(Args, Debug)]
#[command(mut_arg("namespace_of_broker", |arg| arg.hide(true)))]
pub(crate) struct AdminArguments {
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
    /// File with `USER:PASSWORD` of an administrator [default: `$FERRYBUS_ADMIN`, which has the same, else the key of the
    /// connection string, which is enough where no administrator is configured]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_file: Option<PathBuf>,
}

/// Address of the broker and log-in of an administrator, for commands about the whole installation.
#[derive(Args, Debug)]
pub(crate) struct OperatorArguments {
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
    /// File with `USER:PASSWORD` of an administrator [default: `$FERRYBUS_ADMIN`, which has the same, unless `--namespace` is given;
    /// else the key of the connection string]
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_file: Option<PathBuf>,
}

/// Settings of a namespace that are given.
#[derive(Debug, Default)]
pub(crate) struct NamespaceArguments {
    /// All of them; an empty list takes those that there are away.
    pub(crate) hostnames: Option<Vec<Box<str>>>,
    pub(crate) weight: Option<u64>,
    pub(crate) limits: Vec<(NamespaceLimit, Option<u64>)>,
}

impl NamespaceArguments {
    /// Whether nothing is given.
    pub(crate) const fn is_empty(&self) -> bool {
        self.hostnames.is_none() && self.weight.is_none() && self.limits.is_empty()
    }
}

const HEADING: &str = "Settings";
const HOSTNAME: &str = "hostname";
const WEIGHT: &str = "weight";

impl Args for NamespaceArguments {
    fn augment_args(command: Command) -> Command {
        let hostnames = Arg::new(HOSTNAME)
            .long(HOSTNAME)
            .value_name("NAME")
            .action(clap::ArgAction::Append)
            .value_parser(hostname_or_none)
            .help("Host name that leads to it beside those that begin with its name, may be given several times; '' for none")
            .help_heading(HEADING);
        let weight = Arg::new(WEIGHT)
            .long(WEIGHT)
            .value_name("NUMBER")
            .value_parser(|text: &str| LimitNumber::read(&NAMESPACE_WEIGHT, text))
            .help(NAMESPACE_WEIGHT.help())
            .help_heading(HEADING);
        NamespaceLimit::ALL.into_iter().fold(command.arg(hostnames).arg(weight), |command, limit| {
            let row = namespace_limit(limit);
            let arg = Arg::new(limit.key())
                .long(limit.key().replace('_', "-"))
                .value_name(if limit.is_bytes() { "BYTES" } else { "NUMBER" })
                .value_parser(move |text: &str| LimitNumber::read_or_none(row, text))
                .help(format!("{} `none` takes the limit away", row.help()))
                .help_heading(HEADING);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for NamespaceArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let hostnames = matches.get_many::<Option<Box<str>>>(HOSTNAME);
        let limits = NamespaceLimit::ALL.into_iter().filter_map(|limit| {
            let number = matches.get_one::<LimitNumber>(limit.key())?;
            Some((limit, number.0))
        });
        Ok(Self {
            hostnames: hostnames.map(|names| names.flatten().cloned().collect()),
            weight: matches.get_one::<LimitNumber>(WEIGHT).and_then(|number| number.0),
            limits: limits.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A host name; an empty text for none.
fn hostname_or_none(text: &str) -> Result<Option<Box<str>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = || "expected the name of a host without scheme, port or path".to_owned();
    hostname(text).map(Some).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
