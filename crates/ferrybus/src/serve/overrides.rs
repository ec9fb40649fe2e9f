//! Settings of the file, overridden by the environment and the arguments.
//!
//! Invariant: an argument overrides the environment, which overrides the file.

use std::path::Path;

use crate::{
    arguments::ServeArguments,
    emulator::Variables,
    failure::Failure,
    settings::{QueueEntry, Settings, Tls, configuration_file},
};

/// The file, if there is one, overridden by environment and arguments.
pub(super) fn settings(arguments: &ServeArguments) -> Result<Settings, Failure> {
    settings_of(configuration_file(arguments.config.as_deref()).as_deref(), arguments)
}

/// The same with this file.
pub(super) fn settings_of(file: Option<&Path>, arguments: &ServeArguments) -> Result<Settings, Failure> {
    let mut settings = file.map_or_else(|| Ok(Settings::default()), Settings::load)?;
    settings.variables = Variables::read(|name| std::env::var(name).ok())?;
    let level = std::env::var("FERRYBUS_LOG").ok().filter(|level| !level.is_empty());
    settings.log.level = level.or(settings.log.level.take());
    override_with(&mut settings, arguments);
    Ok(settings)
}

pub(super) fn override_with(settings: &mut Settings, arguments: &ServeArguments) {
    let list = |texts: &Vec<String>| (!texts.is_empty()).then(|| texts.clone());
    let ServeArguments {
        data_dir,
        data,
        durability,
        anonymous,
        emulator_config,
        on_difference,
        log_level,
        log,
        log_format,
        log_connections,
        ..
    } = arguments;
    settings.listen = list(&arguments.listen).or(settings.listen.take());
    settings.listen_tls = list(&arguments.listen_tls).or(settings.listen_tls.take());
    settings.listen_http = list(&arguments.listen_http).or(settings.listen_http.take());
    let tls_certificate = arguments.tls_certificate.as_ref().or(arguments.tls_cert.as_ref());
    settings.data_dir = data_dir.as_ref().or(data.as_ref()).cloned().or(settings.data_dir.take());
    settings.durability = durability.or(settings.durability);
    settings.anonymous = anonymous.or(settings.anonymous);
    settings.emulator_config = emulator_config.clone().or(settings.emulator_config.take());
    settings.on_difference = on_difference.or(settings.on_difference);
    settings.log.level = log_level.as_ref().or(log.as_ref()).cloned().or(settings.log.level.take());
    settings.log.format = log_format.or(settings.log.format);
    settings.log.connections = log_connections.or(settings.log.connections);
    if arguments.auto_create {
        settings.auto_create = Some(true);
    }
    if arguments.testing {
        settings.testing = Some(true);
    }
    if tls_certificate.is_some() {
        settings.tls = Some(Tls {
            certificate: tls_certificate.cloned(),
            key: arguments.tls_key.clone(),
            client_ca: arguments.tls_client_ca.clone(),
            check_interval: settings.tls.take().and_then(|tls| tls.check_interval),
        });
    }
    for name in &arguments.queue {
        // A queue of that name in the file says more than the argument does.
        if !settings.queue.iter().any(|queue| queue.name.eq_ignore_ascii_case(name)) {
            settings.queue.push(QueueEntry::named(name));
        }
    }
}

/// Notices about arguments that were given under their earlier names: their names are those of the keys now.
pub(super) fn renamed(arguments: &ServeArguments) -> impl Iterator<Item = String> {
    let earlier = [
        (arguments.data.is_some(), "--data", "--data-dir"),
        (arguments.tls_cert.is_some(), "--tls-cert", "--tls-certificate"),
        (arguments.log.is_some(), "--log", "--log-level"),
    ];
    let given = earlier.into_iter().filter(|(is_given, ..)| *is_given);
    given.map(|(_, earlier, now)| format!("`{earlier}` is the earlier name of `{now}` (docs/renamed.md)"))
}
