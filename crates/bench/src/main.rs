//! The bench: Ferrybus and the peers found here under one load generator, in one run. `docs/performance.md` says how to
//! read what it prints.
//!
//! Invariant: every figure is printed beside those of the peers and of the machine from the same run; no file of the
//! repository is written.
#![expect(clippy::print_stdout, reason = "figures on standard output are what this program is for")]

mod broker;
mod checkout;
mod creating;
mod figures;
mod growth;
mod http;
mod limits;
mod listing;
mod load;
mod machine;
mod measure;
mod neighbours;
mod ports;
mod process_usage;
mod relay;
mod report;
mod run;
mod scale;
mod scenario;
mod sdk_latency;
mod table;
mod wake;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use load::{Extent, Load, Loop, Peer};

/// A figure, or a sentence for the person who wanted it.
type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    about = "Ferrybus and its peers under load, and what the machine itself allows",
    after_help = format!("Scenarios: {}", run::scenarios().join(", "))
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

/// The comparison.
#[derive(Debug, Args)]
struct Run {
    /// Another broker: `NAME=START COMMAND,PORT,ADDRESS`; `{}` in the address becomes the number of the queue
    #[arg(long)]
    peer: Vec<String>,
    /// Only these brokers
    #[arg(long, value_delimiter = ',')]
    broker: Vec<String>,
    /// Only these scenarios
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Runs of each; the median is reported
    #[arg(long, default_value_t = 3)]
    reps: usize,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Megabytes that wait in the full namespace of `neighbours`; the disk needs a little more than that
    #[arg(long, default_value_t = neighbours::BACKLOG_MB)]
    backlog_mb: u64,
    /// Nice value of the threads that make the full load of `neighbours`. Above 0 the broker and the measured client get a core before
    /// them, as if the clients of the load were on another machine
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=19))]
    nice_load: i32,
    /// Another build of the broker
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The load generator alone, against a broker that runs already on loopback
    Load(LoadArgs),
    /// The disk of a folder, loopback TCP and wakes of idle cores
    Limits {
        /// The folder; by default one in the target directory
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct LoadArgs {
    #[arg(long)]
    port: u16,
    /// `{}` becomes the number of the queue
    #[arg(long, default_value = "bench-{}")]
    address: String,
    /// User and password for SASL PLAIN, as `USER:PASSWORD`
    #[arg(long)]
    user: Option<String>,
    /// Another namespace than the default one
    #[arg(long)]
    namespace: Option<String>,
    /// Process whose CPU and memory are reported
    #[arg(long)]
    pid: Option<u32>,
    #[arg(long, default_value_t = 1)]
    senders: u32,
    #[arg(long, default_value_t = 1)]
    receivers: u32,
    /// Sender and receiver `i` use queue `i` modulo this
    #[arg(long, default_value_t = 1)]
    queues: u32,
    /// Bytes of a body
    #[arg(long, default_value_t = 1_024)]
    size: usize,
    #[arg(long)]
    durable: bool,
    /// Open loop: messages a second of all senders together
    #[arg(long)]
    rate: Option<u32>,
    /// Closed loop: unacknowledged messages of a sender, at most
    #[arg(long, default_value_t = 1_000)]
    window: u32,
    /// Closed loop: messages sent and not yet received, at most
    #[arg(long)]
    max_backlog: Option<u64>,
    #[arg(long, default_value_t = 1_000)]
    credit: u32,
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// A number of messages instead of a time
    #[arg(long)]
    count: Option<u64>,
}

impl LoadArgs {
    fn run(self) -> Fallible<()> {
        let user = self.user.as_deref().map(|user| user.split_once(':').ok_or("`--user` is `USER:PASSWORD`"));
        let user = user.transpose()?.map(|(user, password)| (user.to_owned(), password.to_owned()));
        let peer =
            Peer { port: self.port, address: self.address, user, namespace: self.namespace, pid: self.pid };
        let extent = match self.count {
            Some(messages) => Extent::Messages(messages),
            None => Extent::Time {
                warm_up: Duration::from_secs(self.warm_up),
                measured: Duration::from_secs(self.seconds),
            },
        };
        let pace = match self.rate {
            Some(rate) => Loop::Open { rate },
            None => Loop::Closed { window: self.window, max_backlog: self.max_backlog },
        };
        let load = Load {
            senders: self.senders,
            receivers: self.receivers,
            queues: self.queues,
            size: self.size,
            durable: self.durable,
            pace,
            credit: self.credit,
            starts_behind: 0,
            nice: 0,
            extent,
        };
        println!("{}", load.run(&peer)?);
        Ok(())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        None => run::run(&cli.run),
        Some(Command::Load(load)) => load.run().map(|()| true),
        Some(Command::Limits { folder }) => run::limits(folder).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_help_names_every_scenario() {
        let help = Cli::command().render_help().to_string();
        // A line may end anywhere in the list.
        let words: Vec<&str> = help.split([',', ' ', '\n']).collect();
        for name in run::scenarios() {
            assert!(words.contains(&name), "{name} in {help}");
        }
        assert!(words.contains(&"neighbours") && words.contains(&"scale"), "{help}");
    }

    #[test]
    fn the_backlog_and_the_runs_of_the_neighbours_can_be_chosen() {
        let arguments = [
            "bench",
            "--scenario",
            "neighbours",
            "--backlog-mb",
            "200",
            "--seconds",
            "2",
            "--nice-load",
            "10",
        ];
        let run = Cli::try_parse_from(arguments).unwrap().run;
        assert_eq!((run.backlog_mb, run.seconds, run.nice_load), (200, 2, 10));
        let default = Cli::try_parse_from(["bench"]).unwrap().run;
        assert_eq!((default.backlog_mb, default.nice_load), (3_072, 0));
        assert!(Cli::try_parse_from(["bench", "--nice-load", "-1"]).is_err());
    }
}
