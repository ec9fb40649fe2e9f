//! `/$ferrybus/namespaces`: namespaces and their keys, for administrators of the installation.
//!
//! Invariant: a change is answered once it is durable, and the namespace can be used by then. What a configuration file names is
//! changed in that file alone.

use std::{collections::BTreeMap, sync::Arc};

use broker_admin::rfc_3339_millis;
use broker_auth::Right;
use broker_core::{
    NamespaceDefinition, NamespaceLimit, NamespaceSettings, NamespaceState, Timestamp, namespace_key,
};
use broker_node::{NamespaceCommand, NamespaceId};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ETAG, IF_MATCH},
};
use serde_json::{Map, Value, json};

use super::{
    admin,
    answer::{HttpResponse, Refusal, json_answer},
    attempt::Attempt,
    context::RequestContext,
    core_client,
    testing::parse,
};
use crate::{
    audit::Entry,
    executor::Executor,
    namespaces::{ServedNamespace, directory::takes_a_name},
    node_driver::NamespaceFigures,
    randomness::random,
};

mod change;
mod keys;
mod resource;
mod settings;

pub(super) use resource::is_path;

use change::{change, change_in, existing, is_for_new};
use resource::Resource;
use settings::{SettingsBody, check_version, settings, version};

/// Most namespaces in one answer.
const PAGE_MAX: usize = 1_000;
/// Methods of one namespace or key.
const ALLOW: &str = "GET, PUT, DELETE";

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
        (Resource::Keys(name), Method::GET) => keys::list(context, name),
        (Resource::All | Resource::Keys(_), _) => Err(Refusal::Method { allow: "GET" }),
        (Resource::Key(name, key), Method::GET) => keys::get(context, (name, key), request.uri().path()),
        (Resource::Key(name, key), Method::PUT) => keys::put(context, request, (name, key)).await,
        (Resource::Key(name, key), Method::DELETE) => keys::delete(context, (name, key)).await,
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

#[cfg(test)]
mod tests;
