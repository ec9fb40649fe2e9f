//! The `ferrybus` binary: arguments, configuration, logging, exit codes, and the command-line client.
//!
//! Invariant: data goes to standard output and everything else to standard error; the exit code is 0 for done, 1 for
//! refused or failed, 2 for misuse.

use std::process::ExitCode;

use clap::Parser as _;

use crate::{arguments::Arguments, commands::run};

/// The allocator of glibc keeps what a backlog of small entries has used, so the process would stay above `max_memory` with
/// empty queues (decision 47). That of musl gives it back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod arguments;
mod banner;
mod ca_bundle;
mod certificates;
mod client;
mod commands;
mod connection_string;
mod control_group;
mod difference;
mod emulator;
mod entity_name;
mod failure;
mod journal;
mod log_settings;
mod logging;
mod man_page;
mod output;
mod property;
mod provision;
mod rules;
mod serve;
mod settings;
mod size_and_duration;
mod suggest;
mod table;
mod words;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = run(arguments);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                output::complain(&failure);
            }
            failure.code()
        }
    }
}
