//! `clock` and `fault`, for a broker that was started with `--testing`.
//!
//! Invariant: parsing decides nothing.

use clap::{Args, Subcommand, ValueEnum};

use super::OperatorArguments;
use crate::size_and_duration::Span;

#[derive(Debug, Subcommand)]
pub(crate) enum ClockCommand {
    /// Say what time it is for the broker.
    Show {
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Move the broker's time forward; returns when all that became due is done.
    Advance {
        /// By how much, such as `5m`
        by: Span,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum FaultCommand {
    /// Order one.
    Add(FaultArguments),
    /// Show those that can still strike.
    List {
        #[command(flatten)]
        operator: OperatorArguments,
    },
    /// Take back one, or all.
    Clear {
        /// Its number [default: all]
        number: Option<u64>,
        #[command(flatten)]
        operator: OperatorArguments,
    },
}

#[derive(Args, Debug)]
pub(crate) struct FaultArguments {
    /// Kind of the fault
    pub(crate) kind: FaultKind,
    /// Entity where it does, with everything below [default: everywhere]
    #[arg(long, value_name = "NAME")]
    pub(crate) entity: Option<String>,
    /// Number of times
    #[arg(long, value_name = "NUMBER", required_unless_present = "duration")]
    pub(crate) count: Option<u64>,
    /// Duration, such as `30s`
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// For how long a settlement is held up
    #[arg(long, value_name = "TIME", required_if_eq("kind", "delay-settlement"))]
    pub(crate) delay: Option<Span>,
    #[command(flatten)]
    pub(crate) operator: OperatorArguments,
}

/// Kinds of faults that can be injected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum FaultKind {
    /// A settlement finds its lock lost.
    LoseLock,
    /// Sends and attaches are refused as busy.
    ServerBusy,
    /// Links are detached.
    DropLink,
    /// Connections end without a word.
    DropConnection,
    /// A settlement is answered with an error.
    RejectSettlement,
    /// A settlement is held up.
    DelaySettlement,
}
