//! Makes [`broker_auth::Credentials`] of what the file says.
//!
//! Invariant: a secret comes from exactly one place, is never empty, and no message shows it.

use std::{fs, path::Path};

use broker_auth::{Access, ClientCertificate, Credentials, NamedKey, Right, Rights, Scope, Secret, User};

use super::{Anonymous, CertificateEntry, KeyEntry, Settings, UserEntry};
use crate::{
    failure::{Failure, unreadable},
    suggest::suggest,
};

/// The configured credentials; the built-in development key when there are none and `loopback` says that nobody
/// else can reach the broker.
pub(super) fn credentials(settings: &Settings, loopback: bool) -> Result<Credentials, Failure> {
    let anonymous = match settings.anonymous.unwrap_or_default() {
        Anonymous::Deny => broker_auth::Anonymous::Deny,
        Anonymous::Allow => broker_auth::Anonymous::Allow,
    };
    let configured = Credentials {
        keys: settings.key.iter().map(key).collect::<Result<_, _>>()?,
        users: settings.user.iter().map(user).collect::<Result<_, _>>()?,
        certificates: settings.certificate.iter().map(certificate).collect::<Result<_, _>>()?,
        anonymous,
        plain_without_tls: settings.plain_without_tls.unwrap_or_default(),
    };
    let nobody = configured.keys.is_empty()
        && configured.users.is_empty()
        && configured.certificates.is_empty()
        && settings.issuer.is_empty();
    match (nobody, loopback, settings.anonymous) {
        // Saying `allow` in so many words is a decision too, made for a closed network.
        (false, ..) | (true, false, Some(Anonymous::Allow)) => Ok(configured),
        (true, true, _) => Ok(Credentials::development(anonymous)),
        (true, false, _) => Err(Failure::misuse(
            "the broker would listen on an address that other machines can reach, but no keys or users are configured",
        )
        .hint(
            "add a `[[key]]` or `[[user]]` to ferrybus.toml (docs/features/configuration.md shows how), or listen on \
             127.0.0.1 only; the built-in development key works on loopback alone",
        )),
    }
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
        scopes: entities.iter().map(|entity| Scope::of(entity)).collect(),
    })
}

fn parse_right(what: &str, text: &str) -> Result<Right, Failure> {
    text.parse().map_err(|error| {
        let failure = Failure::misuse(format_args!("{what} has an unknown right `{text}`: {error}"));
        match suggest(text, ["send", "listen", "manage"]) {
            Some(near) => failure.hint(format_args!("did you mean `{near}`?")),
            None => failure,
        }
    })
}
