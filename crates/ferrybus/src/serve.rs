//! `ferrybus serve`: from arguments and configuration to a running broker, and back to an exit code.
//!
//! Invariant: nothing is opened before everything has been checked; an argument overrides its key in the file.

use std::{io, path::Path, sync::Arc, time::Instant};

use broker_auth::Authority;
use broker_server::{EntityPlan, Outcome, Server, ServerConfig, StartError};
use tracing::{info, warn};

use crate::{
    arguments::ServeArguments,
    banner::Banner,
    emulator::Variables,
    failure::Failure,
    journal, logging,
    provision::Provision,
    settings::{
        Durability, Expiry, Limits, LogFormat, MissingRight, QueueEntry, Settings, Tls, configuration_file,
        targets_first,
    },
};

/// Serves until a signal or a failure.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    // Failures before the configuration is read are written as the arguments say.
    let mut log_format = arguments.log_format.unwrap_or_default();
    serve(arguments, &mut log_format).map_err(|failure| failure.said_in(log_format))
}

fn serve(arguments: &ServeArguments, log_format: &mut LogFormat) -> Result<(), Failure> {
    let began = Instant::now();
    let settings = settings(arguments)?;
    *log_format = settings.log.format.unwrap_or_default();
    logging::start(&settings.log)?;
    let limits = settings.check()?;
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
    let mut server = start(limits)?;
    info!(version = env!("CARGO_PKG_VERSION"), after = ?began.elapsed(), "serving");
    server.heed_signals();
    banner.print(&server)?;
    match server.run_until_signal() {
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

/// The file, if there is one, overridden by the arguments.
fn settings(arguments: &ServeArguments) -> Result<Settings, Failure> {
    let file = configuration_file(arguments.config.as_deref());
    let mut settings = file.map_or_else(|| Ok(Settings::default()), |path| Settings::load(&path))?;
    settings.variables = Variables::read(|name| std::env::var(name).ok())?;
    override_with(&mut settings, arguments);
    Ok(settings)
}

fn override_with(settings: &mut Settings, arguments: &ServeArguments) {
    let list = |texts: &Vec<String>| (!texts.is_empty()).then(|| texts.clone());
    let ServeArguments {
        data,
        durability,
        anonymous,
        emulator_config,
        on_difference,
        log,
        log_format,
        log_connections,
        ..
    } = arguments;
    settings.listen = list(&arguments.listen).or(settings.listen.take());
    settings.listen_tls = list(&arguments.listen_tls).or(settings.listen_tls.take());
    settings.listen_http = list(&arguments.listen_http).or(settings.listen_http.take());
    settings.data_dir = data.clone().or(settings.data_dir.take());
    settings.durability = durability.or(settings.durability);
    settings.anonymous = anonymous.or(settings.anonymous);
    settings.emulator_config = emulator_config.clone().or(settings.emulator_config.take());
    settings.on_difference = on_difference.or(settings.on_difference);
    settings.log.level = log.clone().or(settings.log.level.take());
    settings.log.format = log_format.or(settings.log.format);
    settings.log.connections = log_connections.or(settings.log.connections);
    if arguments.auto_create {
        settings.auto_create = Some(true);
    }
    if arguments.testing {
        settings.testing = Some(true);
    }
    if arguments.tls_cert.is_some() {
        settings.tls = Some(Tls {
            certificate: arguments.tls_cert.clone(),
            key: arguments.tls_key.clone(),
            client_ca: arguments.tls_client_ca.clone(),
        });
    }
    for name in &arguments.queue {
        // A queue of that name in the file says more than the argument does.
        if !settings.queue.iter().any(|queue| queue.name.eq_ignore_ascii_case(name)) {
            settings.queue.push(QueueEntry { name: name.clone(), ..QueueEntry::default() });
        }
    }
}

/// The one place that knows what the server calls things.
fn config(limits: Limits) -> ServerConfig {
    let bounds = limits.bounds;
    let certified = limits.tls.as_ref().map(|tls| broker_server::certificate_host_names(&tls.certificate));
    let host_names = limits.host_names.into_iter().chain(certified.into_iter().flatten()).collect();
    let authority =
        Authority::new(limits.credentials).with_issuers(limits.issuers).with_host_names(host_names);
    ServerConfig {
        listen: limits.listen,
        listen_tls: limits.listen_tls,
        listen_http: limits.listen_http,
        tls: limits.tls.map(|tls| broker_server::TlsFiles {
            certificate: tls.certificate,
            key: tls.key,
            client_authorities: tls.client_ca,
        }),
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
        key_sources: limits.key_sources,
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

#[cfg(test)]
mod tests;
