//! The command-line client: messages over fe2o3-amqp, management over HTTP.
//!
//! Invariant: it speaks to the broker as any other client does; nothing here knows the broker's inside.

use std::{
    future::Future,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{arguments::ConnectArguments, failure::Failure};

mod admin_login;
mod bench;
mod clock;
pub(crate) mod config;
mod connect;
pub(crate) mod connections;
pub(crate) mod dead_letters;
pub(crate) mod entities;
mod fault;
mod faults;
mod health;
mod http;
pub(crate) mod management;
mod message;
mod missing;
pub(crate) mod namespaces;
mod peek;
mod probe;
mod purge;
mod receive;
mod request;
pub(crate) mod rules;
mod send;
pub(crate) mod sessions;
pub(crate) mod top;
mod wire_address;

pub(crate) use bench::bench;
pub(crate) use clock::{advance_clock, show_clock};
pub(crate) use connect::BrokerEndpoint;
pub(crate) use faults::{add_fault, clear_faults, list_faults};
pub(crate) use health::{health, health_path};
pub(crate) use peek::peek;
pub(crate) use probe::probe_target;
pub(crate) use purge::purge;
pub(crate) use receive::receive;
pub(crate) use send::send;

/// Runs a command against the broker that the arguments or the environment name.
pub(crate) fn run<F>(
    arguments: &ConnectArguments,
    command: impl FnOnce(BrokerEndpoint) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    run_at(BrokerEndpoint::new(arguments)?, command)
}

/// Runs a command against this broker.
pub(crate) fn run_at<F>(
    target: BrokerEndpoint,
    command: impl FnOnce(BrokerEndpoint) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format_args!("cannot start: {error}")))?;
    runtime.block_on(async {
        tokio::select! {
            done = command(target) => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("interrupted")),
        }
    })
}

/// The same for a command about the entities of these names: one that is missing is told with the name that was probably
/// meant.
pub(crate) fn run_on<F>(
    arguments: &ConnectArguments,
    names: &[&str],
    command: impl FnOnce(BrokerEndpoint) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    run(arguments, async |target: BrokerEndpoint| match command(target.clone()).await {
        Err(failure) if failure.is_not_found() => Err(missing::explain(&target, names, failure).await),
        done => done,
    })
}

/// Milliseconds since 1970.
fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The address of a queue's own messages or of its dead-letter queue.
fn address(queue: &str, dead_letter: bool) -> String {
    let queue = queue.trim_matches('/');
    if dead_letter { format!("{queue}/$DeadLetterQueue") } else { queue.to_owned() }
}
