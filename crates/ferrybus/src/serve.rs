//! `ferrybus serve`: from arguments and configuration to a running broker, and back to an exit code.
//!
//! Invariant: nothing is opened before everything has been checked; an argument overrides its key in the file.

use std::{io, path::Path, sync::Arc, time::Instant};

use broker_server::{EntityPlan, Outcome, ReloadableConfig, Server, ServerConfig, Signals, StartError};
use tracing::{info, warn};

use crate::{
    arguments::ServeArguments,
    banner::Banner,
    failure::Failure,
    journal, logging,
    provision::Provision,
    settings::{Durability, Expiry, Limits, LogFormat, MissingRight, targets_first},
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
    for notice in &limits.notices {
        warn!("{notice}");
    }
    if limits.durability == Durability::None {
        warn!("durability is `none`: every message is gone when this process ends");
    }
    if limits.testing {
        warn!("started for testing: whoever may manage the namespace can move the clock and order faults");
    }
    let banner = Banner::new(&limits, *log_format);
    let data_dir = limits.data_dir.clone();
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
    let data_dir = limits.data_dir.clone();
    let provision = Provision::new(&limits);
    let config = config(limits);
    let not_started = |error| not_started(error, &data_dir);
    let mut prepared = Server::prepare(&config).map_err(not_started)?;
    provision.run(&mut prepared, &config.entities)?;
    prepared.listen().map_err(not_started)
}

/// The one place that knows what the server calls things.
fn config(limits: Limits) -> ServerConfig {
    let bounds = limits.bounds;
    let ReloadableConfig { tls, authority, key_sources } = limits.reloadable.into_config();
    ServerConfig {
        listen: limits.listen,
        listen_tls: limits.listen_tls,
        listen_http: limits.listen_http,
        tls,
        data_dir: limits.data_dir,
        durability: match limits.durability {
            Durability::Fsync => broker_log::Durability::Fsync,
            Durability::Os => broker_log::Durability::Os,
            Durability::None => broker_log::Durability::None,
        },
        segment_bytes: bounds.segment_bytes,
        cache_bytes: bounds.cache_bytes,
        disk_reserve_bytes: bounds.disk_reserve_bytes,
        entities: targets_first(
            limits
                .queues
                .into_iter()
                .map(|(name, settings)| EntityPlan::queue(name, settings))
                .chain(limits.topics)
                .collect(),
        ),
        auto_create: limits.auto_create,
        expiry: match limits.expiry {
            Expiry::Prompt => broker_core::Expiry::Prompt,
            Expiry::Lazy => broker_core::Expiry::Lazy,
        },
        max_connections: bounds.max_connections,
        max_links_per_connection: bounds.max_links_per_connection,
        max_remembered_ids: bounds.max_remembered_ids,
        quotas: bounds.quotas,
        max_message_bytes: bounds.max_message_bytes,
        max_frame_bytes: bounds.max_frame_bytes,
        idle_time_out: bounds.idle_time_out,
        link_idle_time_out: bounds.link_idle_time_out,
        max_in_flight_bytes: bounds.max_in_flight_bytes,
        http_write_time_out: bounds.http_write_time_out,
        handshake_time_out: bounds.handshake_time_out,
        shutdown_time_out: bounds.shutdown_time_out,
        tcp_max_segment: bounds.tcp_max_segment,
        io_threads: bounds.io_threads,
        authority: Arc::new(authority),
        key_sources,
        missing_right: match limits.missing_right {
            MissingRight::Forbidden => broker_server::MissingRight::Forbidden,
            MissingRight::Unauthorized => broker_server::MissingRight::Unauthorized,
        },
        testing: limits.testing,
        observe: limits.observe,
        container_id: format!("ferrybus-{}", std::process::id()),
    }
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
        StartError::Recovery(_) => format!(
            "`ferrybus journal check {}` says what is wrong and what a repair would lose",
            data_dir.display()
        ),
        StartError::Tls(_) => "`ferrybus cert dev` makes a certificate and key for development".to_owned(),
        _ => return Failure::of(error),
    };
    Failure::of(error).hint(hint)
}

mod overrides;
mod reload;

use overrides::settings;
use reload::Reload;

#[cfg(test)]
mod tests;
