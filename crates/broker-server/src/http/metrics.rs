//! `GET /metrics`: what the broker counts, as Prometheus reads it.
//!
//! Invariant: one scrape at a time, in pages between which the node does other work; how many entities are shown is
//! bounded, and so are the answers that are not read yet.

use std::sync::Arc;

use super::{
    access, admin,
    answer::{HttpResponse, Refusal},
    context::RequestContext,
    core_client::{self, CoreClient},
    pieces::Pieces,
    probe::HealthProblem,
};
use crate::{
    namespaces::ServedNamespace,
    prometheus::{self, MetricsSnapshot, ShownEntity, ShownNamespace},
};
use broker_auth::{Right, Scope};
use broker_core::{Command, Effect, EntityQuery, Ticket};
use hyper::{
    HeaderMap, Method, Request, Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};

/// Entities that the node describes before it does something else.
const PAGE: u64 = 25;

/// The media type of `OpenMetrics` as text.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one scrape.
pub(super) async fn metrics(
    context: &RequestContext,
    request: &Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method { allow: "GET, HEAD" });
    }
    let is_whole = context.shared.observe.anonymous_metrics || sees_all(context, request.headers())?;
    let scrapes = &context.shared.scrapes;
    let text = scrapes.alone(text(context, is_whole)).await.ok_or(Refusal::Stopping)??;
    let room = scrapes.keep(text.iter().map(String::len).sum()).ok_or(Refusal::TooManyUnread)?;
    let mut answer = Response::new(Pieces::of(text).holding(room));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(answer)
}

/// Whether a client sees the whole broker; else it sees the namespace that its request is for. An error if it sees neither.
fn sees_all(context: &RequestContext, headers: &HeaderMap) -> Result<bool, Refusal> {
    if admin::admit_administrator(context, headers, Right::Listen).is_ok() {
        return Ok(true);
    }
    access::claim(context, &context.namespace.authority, headers, (Right::Listen, &Scope::namespace()))?;
    Ok(false)
}

async fn text(context: &RequestContext, is_whole: bool) -> Result<Vec<String>, Refusal> {
    let snapshot = snapshot(context, is_whole).await?;
    // Text for thousands of entities takes longer than the connections of this thread should wait.
    let text = tokio::task::spawn_blocking(move || prometheus::render(snapshot)).await;
    text.map_err(|_| Refusal::Stopping)
}

async fn snapshot(context: &RequestContext, is_whole: bool) -> Result<MetricsSnapshot, Refusal> {
    let shared = &context.shared;
    let mut views = core_client::look(context).await.map_err(Refusal::HealthProblem)?;
    let seen = if is_whole { shared.namespaces.all() } else { vec![Arc::clone(&context.namespace)] };
    let (mut entities, mut all_shown) = (Vec::new(), true);
    for namespace in &seen {
        // The entities of a shard that recovers are shown later.
        let Some(view @ Some(_)) = views.get_mut(usize::from(namespace.executor.shard())) else { continue };
        let shown_before = entities.len();
        match add_entities(context, namespace, &mut entities).await {
            Ok(are_all) => all_shown &= are_all,
            Err(Refusal::HealthProblem(HealthProblem::Recovering { .. })) => {
                entities.truncate(shown_before);
                *view = None;
            }
            Err(refusal) => return Err(refusal),
        }
    }
    let namespaces = seen.iter().map(|served| {
        let view = views.get(usize::from(served.executor.shard())).and_then(Option::as_ref);
        ShownNamespace::new(served, view)
    });
    let namespaces = namespaces.collect();
    Ok(MetricsSnapshot {
        now: shared.clock.utc(),
        metrics: Arc::clone(&shared.metrics),
        is_whole,
        namespaces,
        sockets: shared.connection_limit.taken(),
        memory: (shared.memory.used(), shared.memory.limit),
        certificate_expires_at: shared.tls.expires_at(),
        shards: views,
        entities,
        all_shown,
    })
}

/// Adds the entities of a namespace in order of name; whether these are all.
async fn add_entities(
    context: &RequestContext,
    namespace: &ServedNamespace,
    shown: &mut Vec<ShownEntity>,
) -> Result<bool, Refusal> {
    let core_client = CoreClient::in_namespace(context, namespace);
    let limit = context.shared.observe.max_entities;
    let mut after = Box::<str>::default();
    loop {
        context.shared.scrape_throttle.yield_to_traffic(&namespace.executor).await;
        let query = EntityQuery::All { after, top: PAGE };
        let answer = core_client.ask_in_time(Command::Describe { query, ticket: Ticket(0) }).await?;
        let Effect::Described { entities: page, .. } = answer else { return Ok(true) };
        let is_last = (page.len() as u64) < PAGE;
        after = page.last().map(|last| last.name.to_ascii_lowercase().into()).unwrap_or_default();
        shown.extend(page.into_iter().map(|report| ShownEntity::new(&namespace.name, report)));
        if shown.len() > limit {
            shown.truncate(limit);
            return Ok(false);
        }
        if is_last {
            return Ok(true);
        }
    }
}
