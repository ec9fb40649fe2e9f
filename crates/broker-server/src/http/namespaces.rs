//! `/$ferrybus/namespaces`: namespaces and their keys, for administrators of the installation.
//!
//! Invariant: a change is answered once it is durable, and the namespace can be used by then. What a configuration file names is
//! changed in that file alone.

use std::net::IpAddr;

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_admin::rfc_3339_millis;
use broker_auth::{Right, split_authority};
use broker_core::{
    AccessRight, AuthorizationRule, DEFAULT_NAMESPACE, Effect, KeyText, NamespaceDefinition, NamespaceError,
    NamespaceLimit, NamespaceSettings, NamespaceState, Timestamp, namespace_key,
};
use broker_node::{NamespaceCommand, NamespaceId};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ETAG, IF_MATCH, IF_NONE_MATCH},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    admin,
    answer::{HttpResponse, Refusal, json_answer},
    attempt::Attempt,
    context::{RequestContext, host_of},
    core_client::{self, CoreClient},
    testing::parse,
};
use crate::{
    audit::Entry,
    executor::Executor,
    namespaces::{ServedNamespace, directory::takes_a_name},
    node_driver::NamespaceFigures,
    randomness::random,
};

mod settings;

use settings::{SettingsBody, check_version, settings, version};

/// Path of the list.
const ROOT: &str = "/$ferrybus/namespaces";
/// Most namespaces in one answer.
const PAGE_MAX: usize = 1_000;
/// Methods of one namespace or key.
const ALLOW: &str = "GET, PUT, DELETE";

/// Whether a path, in lower case, is of this interface.
pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The resource of a request.
#[derive(Debug, Eq, PartialEq)]
enum Resource {
    All,
    One(String),
    Keys(String),
    Key(String, String),
}

impl Resource {
    fn of(path: &str) -> Option<Self> {
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
        let rest = decoded.get(ROOT.len()..)?.trim_matches('/');
        let mut parts = rest.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (None, ..) => Some(Self::All),
            (Some(name), None, ..) => Some(Self::One(name)),
            (Some(name), Some(keys), None, _) if keys.eq_ignore_ascii_case("keys") => Some(Self::Keys(name)),
            (Some(name), Some(keys), Some(key), None) if keys.eq_ignore_ascii_case("keys") => {
                Some(Self::Key(name, key))
            }
            _ => None,
        }
    }

    /// Name of the namespace, and what else it is about, for the audit log.
    fn subject(&self) -> (&str, &str) {
        match self {
            Self::All => ("", ""),
            Self::One(name) | Self::Keys(name) => (name, ""),
            Self::Key(name, key) => (name, key),
        }
    }

    const fn action(&self, method: &Method) -> Option<&'static str> {
        match (self, method) {
            (Self::One(_), &Method::PUT) => Some("namespace-set"),
            (Self::One(_), &Method::DELETE) => Some("namespace-delete"),
            (Self::Key(..), &Method::PUT) => Some("namespace-key-set"),
            (Self::Key(..), &Method::DELETE) => Some("namespace-key-delete"),
            _ => None,
        }
    }
}

/// Body of a request for a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyBody {
    rights: Vec<String>,
}

/// Answers a request.
pub(super) async fn answer(
    context: &RequestContext,
    request: Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    let path = request.uri().path().to_owned();
    let resource = Resource::of(&path).ok_or_else(|| Refusal::NotFound(path.clone()))?;
    let action = resource.action(request.method());
    let who = admin::admit_administrator(context, request.headers(), Right::Manage)?;
    let answered = exchange(context, request, &resource).await;
    note(context, action, &resource, (&who, answered.as_ref().err()));
    answered
}

/// The attempt that a request is where nobody is let in.
pub(super) fn attempt(method: &Method, path: &str) -> Attempt {
    let resource = Resource::of(path).unwrap_or(Resource::All);
    let action = resource.action(method).unwrap_or("namespace-read");
    let (namespace, subject) = resource.subject();
    Attempt { action, namespace: namespace.to_owned(), subject: subject.to_owned() }
}

/// Has a change by somebody who was let in in the audit log.
fn note(
    context: &RequestContext,
    action: Option<&'static str>,
    resource: &Resource,
    (who, refusal): (&str, Option<&Refusal>),
) {
    let (Some(action), (namespace, subject)) = (action, resource.subject()) else { return };
    let reason = refusal.map(|refusal| format!("status {}", refusal.status().as_u16()));
    let (who, from, refused) = (Some(who), context.from, reason.as_deref());
    context.shared.audit.write(Entry { who, from, action, namespace, entity: "", subject, refused });
}

async fn exchange(
    context: &RequestContext,
    request: Request<Incoming>,
    resource: &Resource,
) -> Result<HttpResponse, Refusal> {
    let method = request.method().clone();
    match (resource, method) {
        (Resource::All, Method::GET) => list(context, request.uri().query().unwrap_or_default()).await,
        (Resource::One(name), Method::GET) => {
            let served = existing(context, name)?;
            one(context, &served, StatusCode::OK).await
        }
        (Resource::One(name), Method::PUT) => put(context, request, name).await,
        (Resource::One(name), Method::DELETE) => {
            refuse_configured(context, name)?;
            let definition = change(context, NamespaceCommand::Delete { name: (**name).into() }).await?;
            Ok(json_answer(StatusCode::ACCEPTED, &json!({ "name": definition.name, "state": "deleting" })))
        }
        (Resource::Keys(name), Method::GET) => {
            let served = existing(context, name)?;
            let keys: Vec<Value> = served.definition().keys.iter().map(shown_key).collect();
            Ok(json_answer(StatusCode::OK, &json!({ "keys": keys })))
        }
        (Resource::All | Resource::Keys(_), _) => Err(Refusal::Method { allow: "GET" }),
        (Resource::Key(name, key), Method::GET) => {
            let served = existing(context, name)?;
            let definition = served.definition();
            let found = definition.keys.iter().find(|found| *found.name == **key);
            let found = found.ok_or_else(|| Refusal::NotFound(request.uri().path().to_owned()))?;
            Ok(json_answer(StatusCode::OK, &shown_key(found)))
        }
        (Resource::Key(name, key), Method::PUT) => put_key(context, request, (name, key)).await,
        (Resource::Key(name, key), Method::DELETE) => {
            let served = existing(context, name)?;
            if !served.definition().keys.iter().any(|known| *known.name == **key) {
                refuse_configured_key(&served, (name, key))?;
            }
            let command = NamespaceCommand::RemoveKey { name: (**name).into(), key: (**key).into() };
            change(context, command).await?;
            Ok(json_answer(StatusCode::OK, &json!({ "name": key })))
        }
        (Resource::One(_) | Resource::Key(..), _) => Err(Refusal::Method { allow: ALLOW }),
    }
}

async fn list(context: &RequestContext, query: &str) -> Result<HttpResponse, Refusal> {
    let (mut after, mut top) = (String::new(), PAGE_MAX);
    for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match key {
            "after" => {
                let decoded = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
                after = decoded.to_ascii_lowercase();
            }
            "top" => {
                let number = value.parse().map_err(|_| Refusal::Bad("`top` has to be a number".into()))?;
                top = PAGE_MAX.min(number).max(1);
            }
            _ => {}
        }
    }
    let (page, has_more) = context.shared.namespaces.page(&after, top);
    let next = page.last().filter(|_| has_more).map(|last| last.name.clone());
    let figures = figures(context, &page).await?;
    let page: Vec<Value> = page.iter().map(|served| shown(context, served, &figures)).collect();
    Ok(json_answer(StatusCode::OK, &json!({ "namespaces": page, "next": next.as_deref() })))
}

async fn put(
    context: &RequestContext,
    request: Request<Incoming>,
    name: &str,
) -> Result<HttpResponse, Refusal> {
    namespace_key(name).map_err(|error| Refusal::Bad(error.to_string()))?;
    let only_create = is_for_new(&request);
    let expected = request.headers().get(IF_MATCH).cloned();
    let body = context.body(request.into_body()).await?;
    let body: SettingsBody = if body.is_empty() { SettingsBody::default() } else { parse(&body)? };
    // Names are unique among the shards, each of which knows its own alone.
    let _alone = context.shared.namespaces.creation().await;
    let served = context.shared.namespaces.named(name);
    let executor = shard_of(context, context.shared.namespaces.holding(name).as_deref(), body.shard)?;
    let before = served.map(|served| served.definition());
    if let Some(expected) = expected {
        check_version(name, &expected, before.as_deref())?;
    }
    let settings = settings(body, before.as_ref().map(|definition| &definition.settings))?;
    if takes_a_name(before.as_deref(), &settings) && !context.shared.shards.all_work() {
        return Err(Refusal::NamesUnknown);
    }
    if let Some(definition) = &before {
        refuse_change_of_configured(context, definition, &settings)?;
    }
    let namespaces = &context.shared.namespaces;
    if let Err(conflict) = namespaces.check_hostnames(name, &settings.hostnames) {
        return Err(Refusal::Conflict(conflict.to_string()));
    }
    let uid = u128::from_be_bytes(random().map_err(|error| Refusal::Full(error.to_string()))?);
    let is_new = before.is_none();
    let command = NamespaceCommand::Put { name: name.into(), settings, uid, only_create };
    change_in(context, &executor, command).await?;
    let served = existing(context, name)?;
    one(context, &served, if is_new { StatusCode::CREATED } else { StatusCode::OK }).await
}

/// Whether the request is only for a name that is not taken.
fn is_for_new<B>(request: &Request<B>) -> bool {
    request.headers().get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == b"*")
}

/// The settings in a configuration file are changed there; whether a namespace is held is not in a file.
fn refuse_change_of_configured(
    context: &RequestContext,
    before: &NamespaceDefinition,
    settings: &NamespaceSettings,
) -> Result<(), Refusal> {
    let same = NamespaceSettings { held: settings.held, ..before.settings.clone() };
    if same == *settings { Ok(()) } else { refuse_configured(context, &before.name) }
}

fn refuse_configured(context: &RequestContext, name: &str) -> Result<(), Refusal> {
    if context.shared.namespaces.is_configured(name) {
        return Err(Refusal::Conflict(format!(
            "the configuration file names the namespace `{name}`: change it there and send SIGHUP"
        )));
    }
    Ok(())
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

async fn put_key(
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

/// The shard of a namespace, or the one in which it is created: that which the request names, or the least loaded one.
fn shard_of(
    context: &RequestContext,
    served: Option<&ServedNamespace>,
    wanted: Option<u16>,
) -> Result<Arc<Executor>, Refusal> {
    let shared = &context.shared;
    if let Some(served) = served {
        let number = served.executor.shard();
        return match wanted.filter(|wanted| *wanted != number) {
            None => Ok(Arc::clone(&served.executor)),
            Some(_) => {
                Err(Refusal::Conflict(format!("the namespace `{}` lives in shard {number}", served.name)))
            }
        };
    }
    match wanted {
        None => Ok(shared.namespaces.loads(&shared.shards).take_least()),
        Some(number) => {
            let missing = || Refusal::Bad(format!("there is no shard {number}"));
            shared.shards.get(number).map(Arc::clone).ok_or_else(missing)
        }
    }
}

/// Has a namespace that exists changed, and gives its definition.
async fn change(context: &RequestContext, command: NamespaceCommand) -> Result<NamespaceDefinition, Refusal> {
    let name = match &command {
        NamespaceCommand::Put { name, .. }
        | NamespaceCommand::PutKey { name, .. }
        | NamespaceCommand::RemoveKey { name, .. }
        | NamespaceCommand::Delete { name } => name.to_string(),
    };
    let executor = Arc::clone(&existing(context, &name)?.executor);
    change_in(context, &executor, command).await
}

async fn change_in(
    context: &RequestContext,
    executor: &Arc<Executor>,
    command: NamespaceCommand,
) -> Result<NamespaceDefinition, Refusal> {
    match CoreClient::of_shard(context, executor).change_namespace(command).await? {
        Effect::NamespaceDone { definition, .. } => Ok(*definition),
        Effect::NamespaceRefused { error, .. } => Err(refusal(error)),
        _ => Err(Refusal::Stopping),
    }
}

fn refusal(error: NamespaceError) -> Refusal {
    let text = error.to_string();
    match error {
        NamespaceError::Name(_) | NamespaceError::Default => Refusal::Bad(text),
        NamespaceError::NotFound(name) => Refusal::NotFound(format!("{ROOT}/{name}")),
        NamespaceError::NoKey { namespace, key } => {
            Refusal::NotFound(format!("{ROOT}/{namespace}/keys/{key}"))
        }
        NamespaceError::AlreadyExists(_) => Refusal::Precondition(text),
        NamespaceError::Deleting(_) | NamespaceError::Hostname { .. } => Refusal::Conflict(text),
        NamespaceError::Full { .. }
        | NamespaceError::TooManyKeys { .. }
        | NamespaceError::QuotaExceeded(_) => Refusal::Full(text),
    }
}

fn existing(context: &RequestContext, name: &str) -> Result<Arc<ServedNamespace>, Refusal> {
    context.shared.namespaces.named(name).ok_or_else(|| Refusal::NotFound(format!("{ROOT}/{name}")))
}

type Figures = BTreeMap<(u16, NamespaceId), NamespaceFigures>;

async fn figures(context: &RequestContext, of: &[Arc<ServedNamespace>]) -> Result<Figures, Refusal> {
    core_client::figures(context, of).await.map_err(Refusal::HealthProblem)
}

/// The answer about one namespace.
async fn one(
    context: &RequestContext,
    served: &Arc<ServedNamespace>,
    status: StatusCode,
) -> Result<HttpResponse, Refusal> {
    let figures = figures(context, std::slice::from_ref(served)).await?;
    let mut answer = json_answer(status, &shown(context, served, &figures));
    answer.headers_mut().insert(ETAG, version(&served.definition()));
    Ok(answer)
}

fn shown(context: &RequestContext, served: &ServedNamespace, figures: &Figures) -> Value {
    let definition = served.definition();
    let NamespaceDefinition { slot, uid, name, state, settings, created_at, updated_at, .. } = &*definition;
    let figures = figures.get(&(served.executor.shard(), served.id));
    let of = |figure: fn(&NamespaceFigures) -> u64| figures.map(figure);
    let limits = NamespaceLimit::ALL.map(|limit| (limit.key().to_owned(), json!(settings.limits.get(limit))));
    let state = match state {
        NamespaceState::Active if settings.held => "held",
        NamespaceState::Active => "active",
        NamespaceState::Deleting | NamespaceState::Deleted => "deleting",
    };
    json!({
        "name": name,
        "uid": format!("{uid:032x}"),
        "state": state,
        "slot": slot.0,
        "shard": served.executor.shard(),
        "from_file": context.shared.namespaces.is_configured(name),
        "hostnames": settings.hostnames,
        "weight": settings.weight,
        "held": settings.held,
        "limits": Map::from_iter(limits),
        "usage": {
            "entities": of(|figures| figures.entities),
            "bytes": of(|figures| figures.live_bytes),
            "connections": served.connections(),
            "in_flight_bytes": served.ingress_credit.bytes(),
        },
        "created_at": time(*created_at),
        "updated_at": time(*updated_at),
    })
}

fn time(at: Timestamp) -> String {
    rfc_3339_millis(i64::try_from(at.as_millis()).unwrap_or(i64::MAX))
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
