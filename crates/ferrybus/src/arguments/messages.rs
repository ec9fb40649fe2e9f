//! `config`, `purge`, `dead-letter`, `session`, `connection` and `top`.
//!
//! Invariant: what removes messages says so in its help.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ConnectArguments, OperatorArguments};
use crate::{
    client::top::Column,
    size_and_duration::{Moment, Span},
};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show how the broker differs from a file, and change the broker accordingly.
    Apply(ApplyArguments),
}

#[derive(Args, Debug)]
pub(crate) struct ApplyArguments {
    /// `ferrybus.toml`, or the `Config.json` of the Azure emulator
    pub(crate) file: PathBuf,
    /// Only show; exit code 2 if there are differences
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete entities that are not in the file, with their messages
    #[arg(long)]
    pub(crate) prune: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

#[derive(Args, Debug)]
pub(crate) struct PurgeArguments {
    /// Name of the queue, or `topic/Subscriptions/subscription`
    pub(crate) queue: String,
    /// Only those that were enqueued before this time, such as `2026-01-31T12:00:00Z`, or this long ago, such as `2h`
    #[arg(long, value_name = "TIME")]
    pub(crate) before: Option<Moment>,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// Show dead letters and why they are there, without taking them.
    List(DeadLetterArguments),
    /// Send dead letters again to where they came from, each in one transaction with its removal.
    Resubmit {
        #[command(flatten)]
        selection: DeadLetterArguments,
        /// Send to this queue or topic instead
        #[arg(long, value_name = "NAME")]
        to: Option<String>,
        /// Give each a message id of its own, so that no duplicate detection drops it
        #[arg(long)]
        new_id: bool,
    },
    /// Remove dead letters for good.
    Purge(DeadLetterArguments),
}

/// Which dead letters.
#[derive(Args, Debug)]
pub(crate) struct DeadLetterArguments {
    /// Name of the queue, or `topic/Subscriptions/subscription`
    pub(crate) queue: String,
    /// Only those with this reason
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Only those with this subject (label)
    #[arg(long, value_name = "TEXT")]
    pub(crate) subject: Option<String>,
    /// Only those with this message id, may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "NUMBER", default_value_t = u64::MAX, hide_default_value = true)]
    pub(crate) max: u64,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions that have messages or a state.
    List {
        /// Name of the queue, or `topic/Subscriptions/subscription`
        queue: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Get or set the state of a session. It is locked meanwhile.
    #[command(subcommand)]
    State(StateCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print it.
    Get {
        /// Name of the queue, or `topic/Subscriptions/subscription`
        queue: String,
        /// Id of the session
        session: String,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Replace it.
    Set {
        /// Name of the queue, or `topic/Subscriptions/subscription`
        queue: String,
        /// Id of the session
        session: String,
        #[command(flatten)]
        state: NewState,
        #[command(flatten)]
        connect: ConnectArguments,
    },
}

/// One of them is needed.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct NewState {
    /// The state, as text
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// File with the state; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Take the state away
    #[arg(long)]
    pub(crate) clear: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectionCommand {
    /// List the clients that are connected.
    List {
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Close a connection. Its client is told `amqp:connection:forced`; most connect again.
    Close {
        /// Its number in the list
        id: u64,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TopArguments {
    /// Time between two looks, at least 200 ms
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) interval: Span,
    /// Column to sort by
    #[arg(long, value_enum, value_name = "COLUMN", default_value_t = Column::Active)]
    pub(crate) sort: Column,
    /// Sort the other way round
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Only entities with this in their name
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Print one sample and end
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}
