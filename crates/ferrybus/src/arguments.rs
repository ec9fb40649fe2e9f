//! The command line.
//!
//! Invariant: parsing decides nothing; every argument is checked where it is used, misuse ends with exit code 2.

use std::{net::IpAddr, path::PathBuf};

use broker_log::Durability;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    log_settings::LogFormat,
    settings::{Anonymous, OnDifference},
    size_and_duration::{Bytes, Span},
    words,
};

mod entities;
mod messages;
mod namespaces;
mod testing;

pub(crate) use entities::{
    EntityCommand, Kind, Queue, RuleArguments, RuleCommand, RulePath, SubscriptionCommand, Topic,
};
pub(crate) use messages::{
    ApplyArguments, ConfigCommand, ConnectionCommand, DeadLetterArguments, DeadLetterCommand, NewState,
    PurgeArguments, SessionCommand, StateCommand, TopArguments,
};
pub(crate) use namespaces::{
    AdminArguments, NamespaceArguments, NamespaceCommand, NamespaceKeyCommand, OperatorArguments,
};
pub(crate) use testing::{ClockCommand, FaultArguments, FaultCommand};

/// An AMQP 1.0 message broker in one binary. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "ferrybus", version, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker (what `ferrybus` alone does).
    Serve(ServeArguments),
    /// Make certificates.
    #[command(subcommand)]
    Cert(CertCommand),
    /// Look after a journal while no broker uses it.
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Bring the entities of a running broker in line with a file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Create, change, show, list and delete queues.
    #[command(subcommand)]
    Queue(EntityCommand<Queue>),
    /// Create, change, show, list and delete topics.
    #[command(subcommand)]
    Topic(EntityCommand<Topic>),
    /// Create, change, show, list and delete subscriptions of topics.
    #[command(subcommand)]
    Subscription(SubscriptionCommand),
    /// Create, change, show, list and delete rules of subscriptions.
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Create, change, show, list and delete namespaces, and make their keys.
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Send messages to a queue.
    Send(SendArguments),
    /// Receive messages from a queue and settle them.
    Receive(ReceiveArguments),
    /// Look at the messages of a queue without taking them.
    Peek(PeekArguments),
    /// Remove the messages of a queue for good.
    Purge(PurgeArguments),
    /// Show, send again and remove dead letters.
    #[command(subcommand)]
    DeadLetter(DeadLetterCommand),
    /// Show sessions and their states.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show and close the connections of clients.
    #[command(subcommand)]
    Connection(ConnectionCommand),
    /// Watch the entities of a broker: messages, rates and ages, live.
    Top(TopArguments),
    /// Measure sending and receiving through a queue.
    Bench(BenchArguments),
    /// Say whether the broker can be used; exit code 1 when it cannot.
    Health {
        /// Say only whether it works, full disk or not: what a restart may help
        #[arg(long, conflicts_with = "sends")]
        live: bool,
        /// Say whether messages can be sent: no while the disk is full
        #[arg(long)]
        sends: bool,
        /// Ask the broker that this file configures [default: as `serve`, unless a broker is named]
        #[arg(long, value_name = "FILE", conflicts_with_all = ["connection_string", "server", "address"])]
        config: Option<PathBuf>,
        #[command(flatten)]
        connect: ConnectArguments,
    },
    /// Look at or move the clock of a broker that was started with `--testing`.
    #[command(subcommand)]
    Clock(ClockCommand),
    /// Order faults of a broker that was started with `--testing`.
    #[command(subcommand)]
    Fault(FaultCommand),
    /// Print what a shell needs to complete commands and options.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command.
    Man {
        /// Folder for the pages [default: the page of `ferrybus` on standard output]
        folder: Option<PathBuf>,
    },
}

/// Each overrides its key in the configuration file.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArguments {
    /// Configuration file [default: `$FERRYBUS_CONFIG`, else `./ferrybus.toml` if it exists]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address for AMQP, may be given several times [default: `127.0.0.1:5672` and `[::1]:5672`]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Address for AMQP over TLS, may be given several times [default with a certificate: port 5671]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen_tls: Vec<String>,
    /// Address for HTTP, may be given several times [default: port 5300 on the hosts of `listen` with port 5672]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen_http: Vec<String>,
    /// Folder of the journal [default: ./ferrybus-data]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Earlier name of `--data-dir`
    #[arg(long, value_name = "FOLDER", hide = true, conflicts_with = "data_dir")]
    pub(crate) data: Option<PathBuf>,
    /// Failure that accepted messages survive [default: fsync]
    #[arg(long, value_parser = words::of_argument::<Durability>())]
    pub(crate) durability: Option<Durability>,
    /// Create a queue when a client attaches to a missing one
    #[arg(long)]
    pub(crate) auto_create: bool,
    /// Rights of clients without credentials [default: deny]
    #[arg(long)]
    pub(crate) anonymous: Option<Anonymous>,
    /// Queue to create at start if missing, may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Vec<String>,
    /// Certificate chain for TLS, PEM; replaces all of `[tls]` in the file but `check_interval`
    #[arg(long, value_name = "FILE", requires = "tls_key", group = "tls_certificate_of_any_name")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Earlier name of `--tls-certificate`
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        group = "tls_certificate_of_any_name",
        hide = true
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate_of_any_name")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities whose client certificates are trusted, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate_of_any_name")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// For tests against the broker: let `ferrybus clock` move its time, and `ferrybus fault` order faults
    #[arg(long, visible_alias = "test-clock")]
    pub(crate) testing: bool,
    /// The Azure emulator's Config.json, as it is
    #[arg(long, value_name = "FILE")]
    pub(crate) emulator_config: Option<PathBuf>,
    /// Treatment of entities that differ from their file [default: apply with `--emulator-config`, else keep]
    #[arg(long)]
    pub(crate) on_difference: Option<OnDifference>,
    /// Level or filter of the log, such as `info` or `broker_server=debug` [default: `$FERRYBUS_LOG`, else the file's,
    /// else info]
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// Earlier name of `--log-level`
    #[arg(long, value_name = "FILTER", hide = true, conflicts_with = "log_level")]
    pub(crate) log: Option<String>,
    /// Format of log lines [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Log each AMQP connection that is opened and closed [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) log_connections: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Make a development authority and a server certificate signed by it.
    Dev(CertArguments),
}

#[derive(Args, Debug)]
pub(crate) struct CertArguments {
    /// Folder for the files; an authority that is already there is used again
    #[arg(long, value_name = "FOLDER", default_value = "ferrybus-certs")]
    pub(crate) out: PathBuf,
    /// Host name or address that clients use, may be given several times [default: `localhost`, `127.0.0.1`, `::1`]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Make a client certificate with this common name, for SASL EXTERNAL; without `--host` the server's stays as it is
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Vec<String>,
    /// Replace certificates that are already there (never the authority)
    #[arg(long)]
    pub(crate) force: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Say whether a journal is sound, and what is wrong with it. Changes nothing.
    Check(JournalArguments),
    /// Cut what cannot be read, after saying what is lost.
    Repair {
        #[command(flatten)]
        journal: JournalArguments,
        /// Really do it
        #[arg(long)]
        yes: bool,
    },
    /// Rewrite a journal of ferrybus 0.1.0 in the present format. The old one is kept in a folder below.
    Migrate(JournalArguments),
}

#[derive(Args, Debug)]
pub(crate) struct JournalArguments {
    /// Folder of the journal: `data_dir` of the broker, or `shard-N` below it for another shard than the first
    pub(crate) folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Address and log-in of a client command.
#[derive(Args, Debug)]
pub(crate) struct ConnectArguments {
    /// Connection string [default: `$FERRYBUS_CONNECTION_STRING`, else the development key at localhost]
    #[arg(long, value_name = "TEXT")]
    pub(crate) connection_string: Option<String>,
    /// Authorities to trust for TLS, PEM [default: `$FERRYBUS_CA`, else the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Host and port, instead of those in the connection string, whose port and encryption stay where none is given
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) server: Option<String>,
    /// Connect to this address, keeping the name in the connection string
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<IpAddr>,
    /// Namespace of the broker [default: the one to which the host in the connection string leads]
    #[arg(long = "namespace", id = "namespace_of_broker", value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SendArguments {
    /// Name of the queue
    pub(crate) queue: String,
    /// Body of each message, as text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["file", "size"])]
    pub(crate) body: Option<String>,
    /// File with the body of each message; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub(crate) file: Option<PathBuf>,
    /// A body of this many bytes, such as `1 KiB`
    #[arg(long, value_name = "BYTES")]
    pub(crate) size: Option<Bytes>,
    /// Number of messages
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) count: u64,
    /// Application property, may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) property: Vec<(String, String)>,
    /// Time to live of a message, such as `30s`
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Span>,
    /// Message id; with several messages `-1`, `-2` … is appended
    #[arg(long, value_name = "ID")]
    pub(crate) message_id: Option<String>,
    /// Correlation id
    #[arg(long, value_name = "ID")]
    pub(crate) correlation_id: Option<String>,
    /// Subject (label)
    #[arg(long, value_name = "TEXT")]
    pub(crate) subject: Option<String>,
    /// Content type of the body
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    /// Messages on their way before waiting for an answer
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub(crate) window: usize,
    /// Send pre-settled: do not ask whether a message was stored
    #[arg(long)]
    pub(crate) pre_settled: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ReceiveArguments {
    /// Name of the queue
    pub(crate) queue: String,
    /// At most this many messages [default: all there are; 1000 of those that are given back]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
    /// Receive mode
    #[arg(long, value_enum, default_value_t = Mode::PeekLock)]
    pub(crate) mode: Mode,
    /// Outcome for each message under its lock
    #[arg(long, value_enum, default_value_t = Settle::Complete)]
    pub(crate) settle: Settle,
    /// Reason to give with `--settle dead-letter`
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Receive from the queue's dead-letter queue
    #[arg(long)]
    pub(crate) dead_letter: bool,
    /// Stop after waiting this long for a message
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) timeout: Span,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

/// Receive mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Mode {
    /// Each is locked until settled.
    PeekLock,
    /// Each is gone when it is sent.
    ReceiveAndDelete,
}

/// Outcome for a locked message.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Settle {
    /// Remove it.
    Complete,
    /// Give it back and count a failed delivery.
    Abandon,
    /// Move it to the dead-letter queue.
    DeadLetter,
    /// Give it back without counting.
    Release,
}

#[derive(Args, Debug)]
pub(crate) struct PeekArguments {
    /// Name of the queue
    pub(crate) queue: String,
    /// First sequence number to show
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) from: i64,
    /// At most this many messages
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) count: u64,
    /// Look into the queue's dead-letter queue
    #[arg(long)]
    pub(crate) dead_letter: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Name of the queue; it should be empty
    pub(crate) queue: String,
    /// Number of messages
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000)]
    pub(crate) count: u64,
    /// Bytes of each body, such as `1 KiB`
    #[arg(long, value_name = "BYTES", default_value = "1 KiB")]
    pub(crate) size: Bytes,
    /// Messages on their way before waiting for an answer
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000)]
    pub(crate) window: usize,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

fn key_value(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected `key=value`"),
    }
}

#[cfg(test)]
mod tests;
