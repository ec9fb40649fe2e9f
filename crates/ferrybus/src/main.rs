//! The `ferrybus` binary: arguments, configuration, logging, exit codes, and the command-line client.
//!
//! Invariant: data goes to standard output and everything else to standard error; the exit code is 0 for done, 1 for
//! refused or failed, 2 for misuse.

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, CertCommand, ClockCommand, Command, FaultCommand, JournalCommand};

mod arguments;
mod calendar;
mod certificates;
mod client;
mod connection_string;
mod emulator;
mod failure;
mod journal;
mod logging;
mod nearest;
mod output;
mod quantity;
mod rules;
mod serve;
mod settings;
mod system;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        None => serve::run(&arguments.serve),
        Some(Command::Serve(serve)) => serve::run(&serve),
        Some(Command::Cert(CertCommand::Dev(dev))) => certificates::run(&dev),
        Some(Command::Journal(JournalCommand::Check(check))) => journal::check(&check),
        Some(Command::Journal(JournalCommand::Repair { journal, yes })) => journal::repair(&journal, yes),
        Some(Command::Send(send)) => client::run(&send.connect, |connect| client::send(connect, &send)),
        Some(Command::Receive(receive)) => {
            client::run(&receive.connect, |connect| client::receive(connect, &receive))
        }
        Some(Command::Peek(peek)) => client::run(&peek.connect, |connect| client::peek(connect, &peek)),
        Some(Command::Clock(ClockCommand::Show { connect })) => {
            client::run(&connect, |target| client::show_clock(target, connect.json))
        }
        Some(Command::Clock(ClockCommand::Advance { by, connect })) => {
            client::run(&connect, |target| client::advance_clock(target, by, connect.json))
        }
        Some(Command::Fault(FaultCommand::Add(fault))) => {
            client::run(&fault.connect, |target| client::add_fault(target, &fault))
        }
        Some(Command::Fault(FaultCommand::List { connect })) => {
            client::run(&connect, |target| client::list_faults(target, connect.json))
        }
        Some(Command::Fault(FaultCommand::Clear { number, connect })) => {
            client::run(&connect, |target| client::clear_faults(target, number, connect.json))
        }
        Some(Command::Bench(bench)) => client::run(&bench.connect, |connect| client::bench(connect, &bench)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            failure.code()
        }
    }
}
