//! Makes [`broker_auth::Issuer`]s of what the file says.
//!
//! Invariant: the keys of a provider come from exactly one place, and over the network only where nobody on the way can
//! exchange them.

use std::{fs, path::PathBuf, time::Duration};

use broker_auth::{ClaimGrant, Issuer, IssuerConfig, KeySet};
use broker_server::KeySource;

use super::{GrantEntry, IssuerEntry, bounds::within_times, credentials::access, namespaces::Namespaces};
use crate::{
    ca_bundle,
    failure::{Failure, unreadable},
    size_and_duration::Span,
};

/// The identity providers of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    pub(crate) issuers: Vec<Issuer>,
    /// The places from which the keys of some are fetched.
    pub(crate) key_sources: Vec<KeySource>,
}

/// The identity providers of each namespace, the default one first.
pub(super) fn issuers(entries: &[IssuerEntry], namespaces: &Namespaces) -> Result<Vec<Issuers>, Failure> {
    let mut all: Vec<Issuers> = namespaces.iter().map(|_| Issuers::default()).collect();
    for entry in entries {
        let owner = what(entry);
        let places =
            namespaces.of_several(&owner, entry.namespace.as_deref(), entry.namespaces.as_deref())?;
        for place in places {
            let Some(of_namespace) = all.get_mut(place.0) else { continue };
            let number = of_namespace.issuers.len();
            // Not a copy: its principals may get other rights in one namespace than in another by a reload.
            of_namespace.issuers.push(issuer(entry)?);
            of_namespace.key_sources.extend(source(number, entry)?);
        }
    }
    Ok(all)
}

fn issuer(entry: &IssuerEntry) -> Result<Issuer, Failure> {
    if entry.name.is_empty() {
        return Err(Failure::misuse("an `[[issuer]]` needs a `name`, as its tokens carry it in `iss`"));
    }
    let what = what(entry);
    if entry.audiences.is_empty() || entry.audiences.iter().any(String::is_empty) {
        return Err(Failure::misuse(format_args!(
            "{what} needs `audiences`, as its tokens carry one in `aud`"
        ))
        .hint("the Azure SDKs ask for `https://servicebus.azure.net`"));
    }
    if entry.grant.is_empty() {
        return Err(Failure::misuse(format_args!("{what} grants nothing"))
            .hint("add an `[[issuer.grant]]` with `claim`, `value` and `rights`"));
    }
    let keys = match &entry.keys_file {
        Some(file) => {
            let text = fs::read(file).map_err(|error| unreadable("keys", file, &error))?;
            KeySet::parse(&text).map_err(|error| {
                Failure::misuse(format_args!("keys `{}` cannot be used: {error}", file.display()))
            })?
        }
        None => KeySet::default(),
    };
    let config = IssuerConfig {
        issuer: entry.name.clone(),
        audiences: entry.audiences.clone(),
        skew_seconds: skew(&what, entry.skew)?.as_secs(),
        grants: entry.grant.iter().map(|grant| self::grant(&what, grant)).collect::<Result<_, _>>()?,
        refreshable: entry.keys_url.is_some(),
    };
    Ok(Issuer::new(config, keys))
}

fn grant(what: &str, entry: &GrantEntry) -> Result<ClaimGrant, Failure> {
    if entry.claim.is_empty() {
        return Err(Failure::misuse(format_args!("a grant of {what} needs a `claim`, such as `roles`")));
    }
    let value = match entry.value.as_deref() {
        Some("") => {
            return Err(Failure::misuse(format_args!("a grant of {what} has an empty `value`"))
                .hint("leave it away to grant for every value of the claim"));
        }
        value => value.unwrap_or_default().to_owned(),
    };
    let place = format!("a grant of {what}");
    Ok(ClaimGrant {
        claim: entry.claim.clone(),
        value,
        access: access(&place, &entry.rights, &entry.entities)?,
    })
}

fn source(number: usize, entry: &IssuerEntry) -> Result<Option<KeySource>, Failure> {
    let what = what(entry);
    let url = match (&entry.keys_url, &entry.keys_file) {
        (Some(url), None) => url.clone(),
        (None, Some(_)) => return Ok(None),
        _ => {
            return Err(Failure::misuse(format_args!("{what} needs either `keys_file` or `keys_url`")));
        }
    };
    let rest = url.strip_prefix("http://");
    if rest.is_none() && !url.starts_with("https://") || rest.is_some_and(|rest| !is_local(rest)) {
        return Err(Failure::misuse(format_args!("{what}: `keys_url` is `{url}`, expected `https://…`"))
            .hint("`http://` is taken for this machine only: whoever changes the keys on the way makes any token good"));
    }
    let authorities: Option<PathBuf> = entry.keys_ca.clone().or_else(ca_bundle::authorities);
    if rest.is_none() && authorities.is_none() {
        return Err(Failure::misuse(format_args!("{what}: no authorities to trust were found"))
            .hint("`keys_ca` names a file with them"));
    }
    Ok(Some(KeySource { issuer: number, url, authorities }))
}

/// Whether `host[:port]/path` is on this machine.
fn is_local(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn what(entry: &IssuerEntry) -> String {
    format!("issuer `{}`", entry.name)
}

/// The difference that the clock of an issuer may have.
fn skew(issuer: &str, given: Option<Span>) -> Result<Duration, Failure> {
    let given = given.unwrap_or(Span::Of(Duration::from_secs(60)));
    within_times(&format!("{issuer}: `skew`"), given, Duration::ZERO, Duration::from_secs(600))
}

#[cfg(test)]
mod tests;
