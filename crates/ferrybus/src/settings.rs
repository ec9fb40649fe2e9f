//! Settings: the keys of `ferrybus.toml`.
//!
//! Invariant: plain data as written by the operator; only [`Settings::check`] makes something the broker runs on. A
//! key that is not listed here is refused, so a slip of the fingers never means "default".

use std::{
    fs,
    path::{Path, PathBuf},
};

use broker_core::Profile;
use broker_log::Durability;
use broker_server::MissingRight;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    emulator::Variables,
    failure::{Failure, unreadable},
    log_settings::LogSettings,
    size_and_duration::Span,
    suggest::suggest,
    words,
};

mod address_prefix;
mod bounds;
mod check;
mod config_file;
mod credentials;
mod declared;
mod entries;
mod issuers;
mod limit;
mod namespace_entry;
mod namespaces;
mod observe;
mod order;
mod probe;
mod reloadable;
mod topics;

pub(crate) use check::{DeclaredNamespace, Entities, Limits, plans};
pub(crate) use config_file::ConfigFile;
pub(crate) use declared::{Declarations, Declared, OnDifference, Source};
pub(crate) use entries::{QueueEntry, RuleEntry, SubscriptionEntry, TopicEntry};
use limit::{Given, JournalTable, LimitsTable, REMOVED};
pub(crate) use limit::{LimitNumber, NAMESPACE_WEIGHT, namespace_limit};
use namespace_entry::NamespaceEntry;
pub(crate) use namespaces::{Namespaces, hostname};
pub(crate) use order::targets_first;
pub(crate) use probe::{ProbeAddress, configuration_file, probe_address};
pub(crate) use reloadable::Reloadable;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Addresses for AMQP, `host:port` or `host`. Default: loopback, port 5672.
    pub(crate) listen: Option<Vec<String>>,
    /// Addresses for AMQP over TLS only. Default with a certificate: the hosts of `listen`, port 5671.
    pub(crate) listen_tls: Option<Vec<String>>,
    /// Addresses for HTTP. Default: port 5300 on the hosts where `listen` has port 5672.
    pub(crate) listen_http: Option<Vec<String>>,
    /// Names under which clients reach the broker, beside those of its certificate and of `listen`.
    pub(crate) hostnames: Vec<String>,
    /// Close connections whose host name leads to no namespace, instead of taking them to the default one.
    pub(crate) strict_hostnames: Option<bool>,
    /// Shards of the process.
    pub(crate) shards: Option<u64>,
    /// Directory of the journal.
    pub(crate) data_dir: Option<PathBuf>,
    /// Durability of acknowledged messages.
    #[serde(deserialize_with = "words::of_file")]
    pub(crate) durability: Option<Durability>,
    /// Create a queue when a client attaches to a missing one.
    pub(crate) auto_create: Option<bool>,
    /// Without effect ([`limit::REMOVED`]).
    expiry: Option<IgnoredAny>,
    /// Prefixes of addresses of plain clients, beside the built-in ones.
    address_prefix: Vec<address_prefix::AddressPrefixEntry>,
    /// The tier of the service that the broker behaves as.
    #[serde(deserialize_with = "words::of_file")]
    pub(crate) profile: Option<Profile>,
    /// Access of clients without credentials.
    pub(crate) anonymous: Option<Anonymous>,
    /// Offer PLAIN on unencrypted connections from other machines.
    pub(crate) plain_without_tls: Option<bool>,
    /// Response of the management API to an authenticated client without the right to manage.
    #[serde(deserialize_with = "words::of_file")]
    pub(crate) missing_right: Option<MissingRight>,
    /// For tests against the broker: its clock can be moved.
    pub(crate) testing: Option<bool>,
    /// An emulator's `Config.json` with more queues.
    pub(crate) emulator_config: Option<PathBuf>,
    /// Policy at start for entities that differ from their files. Default: `apply` with `emulator_config`, else `keep`.
    pub(crate) on_difference: Option<OnDifference>,
    /// The file that this was read from.
    #[serde(skip)]
    pub(crate) file: Option<ConfigFile>,
    /// Environment variables of the Azure emulator; never in the file.
    #[serde(skip)]
    pub(crate) variables: Variables,
    /// Certificate and key.
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: Given<LimitsTable>,
    pub(crate) journal: Given<JournalTable>,
    /// Log level and format.
    pub(crate) log: LogSettings,
    /// Metrics.
    pub(crate) metrics: observe::MetricsSettings,
    /// Exporter of spans.
    pub(crate) telemetry: observe::TelemetrySettings,
    /// Queues to create at start when they do not exist.
    pub(crate) queue: Vec<QueueEntry>,
    /// Topics to create at start when they do not exist, with their subscriptions.
    pub(crate) topic: Vec<TopicEntry>,
    /// Shared access keys.
    pub(crate) key: Vec<KeyEntry>,
    /// Users for SASL PLAIN.
    pub(crate) user: Vec<UserEntry>,
    /// Identity providers whose tokens are taken.
    pub(crate) issuer: Vec<IssuerEntry>,
    /// Client certificates for SASL EXTERNAL.
    pub(crate) certificate: Vec<CertificateEntry>,
    /// Namespaces beside the default one, and what the default one has.
    pub(crate) namespace: Vec<NamespaceEntry>,
    /// Administrators of the installation.
    pub(crate) admin: Vec<AdminEntry>,
}

/// Access of a client without credentials.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Anonymous {
    /// Nothing before it shows a token.
    #[default]
    Deny,
    /// Everything.
    Allow,
}

/// `[tls]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) check_interval: Option<Span>,
}

/// `[[key]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KeyEntry {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) secondary_key: Option<String>,
    pub(crate) secondary_key_file: Option<PathBuf>,
    pub(crate) rights: Vec<String>,
    pub(crate) entities: Vec<String>,
}

/// `[[user]]`
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct UserEntry {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) namespaces: Option<Vec<String>>,
    pub(crate) password: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) rights: Vec<String>,
    pub(crate) entities: Vec<String>,
}

/// `[[certificate]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CertificateEntry {
    pub(crate) subject: String,
    pub(crate) namespace: Option<String>,
    pub(crate) namespaces: Option<Vec<String>>,
    pub(crate) rights: Vec<String>,
    pub(crate) entities: Vec<String>,
}

/// `[[issuer]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct IssuerEntry {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) namespaces: Option<Vec<String>>,
    pub(crate) audiences: Vec<String>,
    pub(crate) keys_file: Option<PathBuf>,
    pub(crate) keys_url: Option<String>,
    pub(crate) keys_ca: Option<PathBuf>,
    pub(crate) skew: Option<Span>,
    pub(crate) grant: Vec<GrantEntry>,
}

/// `[[issuer.grant]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GrantEntry {
    pub(crate) claim: String,
    pub(crate) value: Option<String>,
    pub(crate) rights: Vec<String>,
    pub(crate) entities: Vec<String>,
}

/// `[[admin]]`: an administrator of the installation, who is a user or the owner of a client certificate.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AdminEntry {
    pub(crate) name: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) password_file: Option<PathBuf>,
    /// Subject of the certificate.
    pub(crate) certificate: Option<String>,
}

impl std::fmt::Debug for AdminEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for KeyEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the file. Relative paths in it start at its folder.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| unreadable("configuration", path, &error))?;
        let mut settings = Self::parse(&text, &path.display().to_string())?;
        settings.file = Some(ConfigFile::new(path, &text));
        settings.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(settings)
    }

    /// Those of an emulator's `Config.json` alone.
    pub(crate) fn of_emulator(path: &Path) -> Self {
        Self { emulator_config: Some(path.to_owned()), ..Self::default() }
    }

    /// Reads `text`, which stands in the file called `name`.
    pub(crate) fn parse(text: &str, name: &str) -> Result<Self, Failure> {
        let mut settings: Self = toml::from_str(text).map_err(|error| bad_toml(&error, text, name))?;
        settings.take_out_of_namespaces()?;
        Ok(settings)
    }

    /// Puts the keys and users inside of `[[namespace]]` beside the others.
    fn take_out_of_namespaces(&mut self) -> Result<(), Failure> {
        for namespace in &mut self.namespace {
            let owner = &namespace.name;
            let inner = |table: &str, name: &str| {
                Failure::misuse(format_args!(
                    "namespace `{owner}`: `[[namespace.{table}]]` `{name}` names a namespace itself"
                ))
            };
            for key in &mut namespace.key {
                if key.namespace.replace(owner.clone()).is_some() {
                    return Err(inner("key", &key.name));
                }
            }
            for user in &mut namespace.user {
                if user.namespace.replace(owner.clone()).is_some() || user.namespaces.is_some() {
                    return Err(inner("user", &user.name));
                }
            }
            self.key.append(&mut namespace.key);
            self.user.append(&mut namespace.user);
        }
        Ok(())
    }

    /// The keys of the file that have no effect any more.
    fn removed(&self) -> impl Iterator<Item = &'static str> {
        let expiry = self.expiry.map(|_| "expiry");
        expiry.into_iter().chain(self.limits.removed()).chain(self.journal.removed())
    }

    fn resolve(&mut self, folder: &Path) {
        let tls =
            self.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key, &mut tls.client_ca]);
        let keys = self.key.iter_mut().flat_map(|key| [&mut key.key_file, &mut key.secondary_key_file]);
        let users = self.user.iter_mut().map(|user| &mut user.password_file);
        let users = users.chain(self.admin.iter_mut().map(|admin| &mut admin.password_file));
        let issuers = self.issuer.iter_mut().flat_map(|issuer| [&mut issuer.keys_file, &mut issuer.keys_ca]);
        let own = [&mut self.data_dir, &mut self.emulator_config, &mut self.telemetry.ca];
        for path in own.into_iter().chain(tls).chain(keys).chain(users).chain(issuers).flatten() {
            *path = folder.join(&*path);
        }
    }
}

/// Names the file, the line, and the key that was probably meant.
fn bad_toml(error: &toml::de::Error, text: &str, name: &str) -> Failure {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let place = line.map(|line| format!(", line {line}")).unwrap_or_default();
    let message = error.message().trim_end().replace('\n', "; ");
    let Some((unknown, known)) = unknown_key(&message) else {
        return Failure::misuse(format_args!("bad configuration in `{name}`{place}: {message}"));
    };
    let failure =
        Failure::misuse(format_args!("bad configuration in `{name}`{place}: unknown key `{unknown}`"));
    match suggest(unknown, known.iter().copied()) {
        Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
        None => failure.hint(format_args!("the keys known here are `{}`", known.join("`, `"))),
    }
}

/// Takes apart serde's "unknown field `a`, expected one of `b`, `c`" (or "unknown variant"'s sibling for fields).
fn unknown_key(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.filter(|key| !REMOVED.contains(key)).collect()))
}

#[cfg(test)]
mod tests;
