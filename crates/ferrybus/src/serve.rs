//! `ferrybus serve`: from arguments and configuration to a running broker, and back to an exit code.
//!
//! Invariant: nothing is opened before everything has been checked; an argument overrides its key in the file.

use std::{io, path::Path, time::Instant};

use broker_log::Durability;
use broker_server::{Outcome, Server, Signals, StartError};
use tracing::{info, warn};

use crate::{
    arguments::ServeArguments, banner::Banner, failure::Failure, journal, log_settings::LogFormat, logging,
    provision::Provision, settings::Limits,
};

/// Serves until a signal or a failure.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    // Failures before the configuration is read are written as the arguments say.
    let mut log_format = arguments.log_format.unwrap_or_default();
    serve(arguments, &mut log_format).map_err(|failure| failure.said_in(log_format))
}

fn serve(arguments: &ServeArguments, log_format: &mut LogFormat) -> Result<(), Failure> {
    let began = Instant::now();
    let mut signals = Signals::watch().map_err(Failure::of)?;
    let settings = settings(arguments)?;
    *log_format = settings.log.format.unwrap_or_default();
    let level = logging::start(&settings.log)?;
    let file = settings.file.clone();
    let limits = settings.check()?;
    let mut reload = Reload::new(arguments, file, &limits, level);
    for notice in renamed(arguments).chain(limits.notices.iter().cloned()) {
        warn!("{notice}");
    }
    if limits.server.journal.durability == Durability::None {
        warn!("durability is `none`: every message is gone when this process ends");
    }
    if limits.server.testing {
        warn!("started for testing: an administrator can move the clock and order faults");
    }
    let banner = Banner::new(&limits, *log_format);
    let data_dir = limits.server.data_dir.clone();
    let server = start(limits)?;
    info!(version = env!("CARGO_PKG_VERSION"), after = ?began.elapsed(), "serving");
    signals.watch_shutdown();
    banner.print(&server)?;
    match server.run(signals, |running| reload.on_signal(running)) {
        Outcome::Stopped => Ok(()),
        Outcome::JournalFailed => Err(Failure::new("the journal failed, nothing more was acknowledged")
            .hint(format_args!(
                "see the log above for the cause; a restart recovers all that was acknowledged from `{}`",
                data_dir.display()
            ))),
        Outcome::Panicked => Err(Failure::new("the broker failed by a fault of its own")
            .hint("the log above has what panicked, and where: please report it; a restart recovers all that was acknowledged")),
    }
}

/// Reads the journal, makes the entities as they are declared, and listens.
fn start(limits: Limits) -> Result<Server, Failure> {
    let data_dir = limits.server.data_dir.clone();
    let provision = Provision::new(&limits);
    let config = limits.into_config();
    let not_started = |error| not_started(error, &data_dir);
    let mut prepared = Server::prepare(&config).map_err(not_started)?;
    provision.run(&mut prepared)?;
    prepared.listen().map_err(not_started)
}

fn not_started(error: StartError, data_dir: &Path) -> Failure {
    let hint = match error {
        StartError::Disk(error) => return journal::not_opened(error),
        StartError::Listen { ref source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            "another program listens there; stop it, or choose another address with `--listen`".to_owned()
        }
        StartError::Listen { ref source, .. } if source.kind() == io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address; `--listen [::]:5672` takes every address it has"
                .to_owned()
        }
        ref error if error.is_other_shard() => format!(
            "each shard but the first has its folder `shard-N` below `{}`: put the folders back where they were",
            data_dir.display()
        ),
        StartError::Recovery { ref folder, .. } => format!(
            "`ferrybus journal check {}` says what is wrong and what a repair would lose",
            folder.display()
        ),
        StartError::Tls(_) => "`ferrybus cert dev` makes a certificate and key for development".to_owned(),
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(hint)
}

mod overrides;
mod reload;

use overrides::{renamed, settings};
use reload::Reload;

#[cfg(test)]
mod tests;
