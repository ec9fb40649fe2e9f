//! Makes [`broker_auth::Credentials`] of what the file says.
//!
//! Invariant: a secret comes from exactly one place, is never empty, and no message shows it.

use std::{fs, path::Path};

use broker_auth::{Access, ClientCertificate, Credentials, NamedKey, Right, Rights, Scope, Secret, User};

use super::{
    AdminEntry, Anonymous, CertificateEntry, KeyEntry, Settings, UserEntry,
    namespaces::{NamespaceIndex, Namespaces},
};
use crate::{
    failure::{Failure, unreadable},
    suggest::suggest,
};

/// All credentials of a configuration.
#[derive(Debug)]
pub(super) struct AllCredentials {
    /// Those of each namespace, the default one first.
    pub(super) namespaces: Vec<Credentials>,
    /// Those that a namespace which an interface creates begins with.
    pub(super) created_namespace: Credentials,
    pub(super) administrators: Credentials,
    /// The built-in ones are in force, because none is configured.
    pub(super) development: bool,
}

/// The configured credentials; the built-in development key when there are none and `loopback` says that nobody
/// else can reach the broker.
pub(super) fn credentials(
    settings: &Settings,
    namespaces: &Namespaces,
    loopback: bool,
) -> Result<AllCredentials, Failure> {
    let plain_without_tls = settings.plain_without_tls.unwrap_or_default();
    let none = || Credentials { plain_without_tls, ..Credentials::default() };
    let of_namespace = |anonymous: Anonymous| Credentials { anonymous: anonymous.into(), ..none() };
    let mut all = AllCredentials {
        namespaces: namespaces.iter().map(|(_, namespace)| of_namespace(namespace.anonymous)).collect(),
        created_namespace: none(),
        administrators: none(),
        development: false,
    };
    all.add_configured(settings, namespaces)?;
    for entry in &settings.admin {
        administrator(entry, &mut all.administrators)?;
    }
    let nobody = settings.issuer.is_empty()
        && all.namespaces.iter().chain([&all.administrators]).all(|credentials| {
            credentials.keys.is_empty() && credentials.users.is_empty() && credentials.certificates.is_empty()
        });
    match (nobody, loopback, settings.anonymous) {
        // Saying `allow` in so many words is a decision too, made for a closed network.
        (false, ..) | (true, false, Some(Anonymous::Allow)) => {}
        (true, true, _) => all.add_development_key(),
        (true, false, _) => return Err(nobody_may_log_in()),
    }
    Ok(all)
}

impl AllCredentials {
    /// Gives each namespace what the configuration has for it.
    fn add_configured(&mut self, settings: &Settings, namespaces: &Namespaces) -> Result<(), Failure> {
        for entry in &settings.key {
            let key = key(entry)?;
            let owner = format!("key `{}`", entry.name);
            let place = namespaces.of(&owner, entry.namespace.as_deref())?;
            self.each(&[place], |credentials| credentials.keys.push(key.clone()));
        }
        for entry in &settings.user {
            let user = user(entry)?;
            let owner = format!("user `{}`", entry.name);
            let places =
                namespaces.of_several(&owner, entry.namespace.as_deref(), entry.namespaces.as_deref())?;
            self.each(&places, |credentials| credentials.users.push(user.clone()));
        }
        for entry in &settings.certificate {
            let certificate = certificate(entry)?;
            let owner = format!("certificate `{}`", entry.subject);
            let places =
                namespaces.of_several(&owner, entry.namespace.as_deref(), entry.namespaces.as_deref())?;
            self.each(&places, |credentials| credentials.certificates.push(certificate.clone()));
        }
        Ok(())
    }

    /// Changes the credentials of these namespaces.
    fn each(&mut self, places: &[NamespaceIndex], change: impl Fn(&mut Credentials)) {
        for place in places {
            if let Some(credentials) = self.namespaces.get_mut(place.0) {
                change(credentials);
            }
        }
    }

    /// Lets the development key in everywhere.
    fn add_development_key(&mut self) {
        self.development = true;
        let all = self.namespaces.iter_mut();
        for credentials in all.chain([&mut self.created_namespace, &mut self.administrators]) {
            credentials.keys.push(NamedKey::development());
        }
    }
}

impl From<Anonymous> for broker_auth::Anonymous {
    fn from(anonymous: Anonymous) -> Self {
        match anonymous {
            Anonymous::Deny => Self::Deny,
            Anonymous::Allow => Self::Allow,
        }
    }
}

fn nobody_may_log_in() -> Failure {
    Failure::misuse(
        "the broker would listen on an address that other machines can reach, but nobody is configured who may log in",
    )
    .hint(
        "add a `[[key]]`, `[[user]]`, `[[certificate]]`, `[[issuer]]` or `[[admin]]` to ferrybus.toml \
         (docs/features/configuration.md shows how), or listen on \
         127.0.0.1 only; the built-in development key works on loopback alone",
    )
}

/// One `[[admin]]`, who has every right.
fn administrator(entry: &AdminEntry, administrators: &mut Credentials) -> Result<(), Failure> {
    let access = Access::namespace(Rights::ALL);
    let has_password = entry.password.is_some() || entry.password_file.is_some();
    match (entry.name.as_deref(), entry.certificate.as_deref()) {
        (None, Some(subject)) if !subject.is_empty() && !has_password => {
            administrators.certificates.push(ClientCertificate { subject: subject.to_owned(), access });
        }
        (Some(name), None) => {
            named(name, "[[admin]]")?;
            let what = format!("admin `{name}`");
            if name.contains(':') {
                return Err(Failure::misuse(format_args!("{what} has a `:` in its name"))
                    .hint("HTTP separates name and password by it"));
            }
            let password =
                secret(&what, "password", entry.password.as_deref(), entry.password_file.as_deref())?
                    .ok_or_else(|| {
                        Failure::misuse(format_args!("{what} needs `password` or `password_file`"))
                    })?;
            administrators.users.push(User { name: name.to_owned(), password, access });
        }
        _ => {
            return Err(Failure::misuse(
                "an `[[admin]]` needs either `name` and a password, or `certificate`",
            )
            .hint("a certificate is named by its subject, such as `CN=operator`"));
        }
    }
    Ok(())
}

fn key(entry: &KeyEntry) -> Result<NamedKey, Failure> {
    let what = format!("key `{}`", entry.name);
    named(&entry.name, "[[key]]")?;
    let primary = secret(&what, "key", entry.key.as_deref(), entry.key_file.as_deref())?
        .ok_or_else(|| Failure::misuse(format_args!("{what} needs `key` or `key_file`")))?;
    let secondary = (entry.secondary_key.as_deref(), entry.secondary_key_file.as_deref());
    let secondary = secret(&what, "secondary_key", secondary.0, secondary.1)?;
    Ok(NamedKey {
        name: entry.name.clone(),
        primary,
        secondary,
        access: access(&what, &entry.rights, &entry.entities)?,
    })
}

fn user(entry: &UserEntry) -> Result<User, Failure> {
    let what = format!("user `{}`", entry.name);
    named(&entry.name, "[[user]]")?;
    let password = secret(&what, "password", entry.password.as_deref(), entry.password_file.as_deref())?
        .ok_or_else(|| Failure::misuse(format_args!("{what} needs `password` or `password_file`")))?;
    Ok(User { name: entry.name.clone(), password, access: access(&what, &entry.rights, &entry.entities)? })
}

fn certificate(entry: &CertificateEntry) -> Result<ClientCertificate, Failure> {
    if entry.subject.is_empty() {
        return Err(Failure::misuse("a `[[certificate]]` needs its `subject`, such as `CN=orders-service`"));
    }
    let what = format!("certificate `{}`", entry.subject);
    Ok(ClientCertificate {
        subject: entry.subject.clone(),
        access: access(&what, &entry.rights, &entry.entities)?,
    })
}

fn named(name: &str, table: &str) -> Result<(), Failure> {
    if name.is_empty() || name.contains('\0') {
        return Err(Failure::misuse(format_args!("a `{table}` needs a `name`")));
    }
    Ok(())
}

/// A secret given as text or as a file, whose trailing line break does not count.
fn secret(
    what: &str,
    name: &str,
    text: Option<&str>,
    file: Option<&Path>,
) -> Result<Option<Secret>, Failure> {
    let text = match (text, file) {
        (Some(_), Some(_)) => {
            return Err(Failure::misuse(format_args!(
                "{what} has both `{name}` and `{name}_file`, expected one"
            )));
        }
        (Some(text), None) => text.to_owned(),
        (None, Some(file)) => {
            let text = fs::read_to_string(file).map_err(|error| unreadable("secret", file, &error))?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, None) => return Ok(None),
    };
    if text.is_empty() || text.contains('\0') {
        return Err(Failure::misuse(format_args!("{what} has an empty or unusable `{name}`")));
    }
    Ok(Some(Secret::new(text)))
}

pub(super) fn access(what: &str, rights: &[String], entities: &[String]) -> Result<Access, Failure> {
    if rights.is_empty() {
        return Err(Failure::misuse(format_args!("{what} has no rights"))
            .hint("add for example `rights = [\"send\", \"listen\"]`"));
    }
    let rights = rights.iter().map(|right| parse_right(what, right)).collect::<Result<Vec<_>, _>>()?;
    Ok(Access {
        rights: Rights::from_iter(rights),
        scopes: entities.iter().map(|entity| Scope::of_configured(entity)).collect(),
    })
}

fn parse_right(what: &str, text: &str) -> Result<Right, Failure> {
    text.parse().map_err(|error| {
        let failure = Failure::misuse(format_args!("{what} has an unknown right `{text}`: {error}"));
        match suggest(text, ["send", "listen", "manage", "dynamic"]) {
            Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
            None => failure,
        }
    })
}
