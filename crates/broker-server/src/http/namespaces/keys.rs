//! `/$ferrybus/namespaces/NAME/keys`: the keys of one namespace.
//!
//! Invariant: the text of a key is in the answer to the request that makes it, and in no other answer of this interface.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::split_authority;
use broker_core::{AccessRight, AuthorizationRule, DEFAULT_NAMESPACE, KeyText};
use broker_node::NamespaceCommand;
use hyper::{Request, StatusCode, body::Incoming};
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{change, existing, is_for_new};
use crate::{
    http::{
        answer::{HttpResponse, Refusal, json_answer},
        context::{RequestContext, host_of},
        testing::parse,
    },
    namespaces::ServedNamespace,
    randomness::random,
};

/// Body of a request for a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    rights: Vec<String>,
}

/// Answers with the names and rights of all keys.
pub(super) fn list(context: &RequestContext, name: &str) -> Result<HttpResponse, Refusal> {
    let served = existing(context, name)?;
    let keys: Vec<Value> = served.definition().keys.iter().map(shown_key).collect();
    Ok(json_answer(StatusCode::OK, &json!({ "keys": keys })))
}

/// Answers with the rights of one key. `path` is that of the request.
pub(super) fn get(
    context: &RequestContext,
    (name, key): (&str, &str),
    path: &str,
) -> Result<HttpResponse, Refusal> {
    let served = existing(context, name)?;
    let definition = served.definition();
    let found = definition.keys.iter().find(|found| *found.name == *key);
    let found = found.ok_or_else(|| Refusal::NotFound(path.to_owned()))?;
    Ok(json_answer(StatusCode::OK, &shown_key(found)))
}

/// Creates a key, or gives it new texts and rights.
pub(super) async fn put(
    context: &RequestContext,
    request: Request<Incoming>,
    (name, key): (&str, &str),
) -> Result<HttpResponse, Refusal> {
    let host = host_of(&request).unwrap_or("localhost").to_owned();
    let only_create = is_for_new(&request);
    let body = context.body(request.into_body()).await?;
    let KeyBody { rights } = parse(&body)?;
    let served = existing(context, name)?;
    refuse_configured_key(&served, (name, key))?;
    if only_create && served.definition().keys.iter().any(|known| *known.name == *key) {
        return Err(Refusal::Precondition(format!("the namespace `{name}` has a key `{key}` already")));
    }
    let text = || -> Result<KeyText, Refusal> {
        let bytes: [u8; 32] = random().map_err(|error| Refusal::Full(error.to_string()))?;
        Ok(KeyText::new(STANDARD.encode(bytes)))
    };
    let now = context.shared.clock.utc();
    let rule = AuthorizationRule {
        name: key.into(),
        rights: rights_of(&rights)?,
        primary: text()?,
        secondary: Some(text()?),
        created_at: now,
        modified_at: now,
    };
    rule.check().map_err(|error| Refusal::Bad(error.to_string()))?;
    let command = NamespaceCommand::PutKey { name: name.into(), key: Box::new(rule.clone()) };
    change(context, command).await?;
    let mut shown = shown_key(&rule);
    if let Some(shown) = shown.as_object_mut() {
        let secondary = rule.secondary.as_ref().map(KeyText::reveal);
        shown.insert("primary".into(), rule.primary.reveal().into());
        shown.insert("secondary".into(), secondary.into());
        let connection_string = connection_string(context, &served, &host, &rule);
        shown.insert("connection_string".into(), connection_string.into());
    }
    Ok(json_answer(StatusCode::CREATED, &shown))
}

/// Removes a key.
pub(super) async fn delete(
    context: &RequestContext,
    (name, key): (&str, &str),
) -> Result<HttpResponse, Refusal> {
    let served = existing(context, name)?;
    if !served.definition().keys.iter().any(|known| *known.name == *key) {
        refuse_configured_key(&served, (name, key))?;
    }
    let command = NamespaceCommand::RemoveKey { name: name.into(), key: key.into() };
    change(context, command).await?;
    Ok(json_answer(StatusCode::OK, &json!({ "name": key })))
}

/// A key that the configuration names is changed and removed there.
fn refuse_configured_key(served: &ServedNamespace, (name, key): (&str, &str)) -> Result<(), Refusal> {
    if served.authority.has_configured_key(key) {
        return Err(Refusal::Conflict(format!(
            "the key `{key}` of the namespace `{name}` is one of the configuration: it is changed there, and not here"
        )));
    }
    Ok(())
}

/// The string by which an SDK connects.
fn connection_string(
    context: &RequestContext,
    served: &ServedNamespace,
    host: &str,
    rule: &AuthorizationRule,
) -> String {
    let tls = context.peer.tls;
    let hostnames = &served.definition().settings.hostnames;
    let endpoint = endpoint((&served.name, hostnames.first().map(|name| &**name)), host, tls);
    let tail = if tls { "" } else { ";UseDevelopmentEmulator=true" };
    let (name, key) = (&rule.name, rule.primary.reveal());
    format!("Endpoint=sb://{endpoint};SharedAccessKeyName={name};SharedAccessKey={key}{tail}")
}

/// Host and port at which clients reach a namespace with this name and hostname, where the request of an administrator was for
/// `host`. A port that clients take by themselves is left out, and so is the one where only HTTP is spoken.
fn endpoint((name, hostname): (&str, Option<&str>), host: &str, tls: bool) -> String {
    let (asked, port) = split_authority(host).unwrap_or(("localhost", None));
    let port = port.filter(|port| *port != if tls { 5_671 } else { 5_672 } && *port != 5_300);
    let address: Option<IpAddr> = asked.parse().ok();
    let host = match (hostname, address) {
        (Some(hostname), _) => hostname.to_owned(),
        (None, Some(IpAddr::V6(address))) if name == DEFAULT_NAMESPACE => format!("[{address}]"),
        (None, _) if name == DEFAULT_NAMESPACE => asked.to_owned(),
        // No label can stand before an address.
        (None, Some(address)) if address.to_canonical().is_loopback() => format!("{name}.localhost"),
        (None, Some(_)) => name.to_owned(),
        (None, None) => format!("{name}.{asked}"),
    };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

fn rights_of(words: &[String]) -> Result<Vec<AccessRight>, Refusal> {
    let right = |word: &String| match word.to_ascii_lowercase().as_str() {
        "manage" => Ok(AccessRight::Manage),
        "send" => Ok(AccessRight::Send),
        "listen" => Ok(AccessRight::Listen),
        _ => Err(Refusal::Bad(format!("`{word}` is no right: those are `manage`, `send` and `listen`"))),
    };
    let mut rights: Vec<AccessRight> = Vec::new();
    for right in words.iter().map(right) {
        let right = right?;
        if !rights.contains(&right) {
            rights.push(right);
        }
    }
    if rights.is_empty() {
        return Err(Refusal::Bad(
            "a key has at least one of the rights `manage`, `send` and `listen`".into(),
        ));
    }
    Ok(rights)
}

fn shown_key(rule: &AuthorizationRule) -> Value {
    let rights = rule.rights.iter().map(|right| match right {
        AccessRight::Manage => "manage",
        AccessRight::Send => "send",
        AccessRight::Listen => "listen",
    });
    json!({ "name": rule.name, "rights": rights.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests;
