//! `GET /metrics`: what the broker counts, as Prometheus reads it.
//!
//! Invariant: one scrape at a time, in pages between which the node does other work; how many entities are shown is
//! bounded.

use super::{
    access,
    answer::{HttpResponse, Refusal},
    context::RequestContext,
    core_client::{self, CoreClient},
    health,
    pieces::Pieces,
    probe,
};
use crate::prometheus::{self, MetricsSnapshot, ShownEntity};
use broker_auth::{Right, Scope};
use broker_core::{Command, Effect, EntityQuery, Ticket};
use hyper::{
    Method, Request, Response,
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
    if !context.shared.observe.anonymous_metrics {
        let seconds = context.shared.clock.now().wall.as_millis() / 1000;
        let wanted = (Right::Listen, &Scope::namespace());
        access::claim(&context.shared.authority, &context.peer, request.headers(), wanted, seconds)?;
    }
    let text = context.shared.scrapes.alone(text(context)).await.ok_or(Refusal::Stopping)??;
    let mut answer = Response::new(Pieces::of(text));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(answer)
}

async fn text(context: &RequestContext) -> Result<Vec<String>, Refusal> {
    let snapshot = snapshot(context).await?;
    // Text for thousands of entities takes longer than the connections of this thread should wait.
    let text = tokio::task::spawn_blocking(move || prometheus::render(snapshot)).await;
    text.map_err(|_| Refusal::Stopping)
}

async fn snapshot(context: &RequestContext) -> Result<MetricsSnapshot, Refusal> {
    let shared = &context.shared;
    let node = core_client::look(context, probe::PATIENCE).await;
    let node = node.ok_or_else(|| Refusal::HealthProblem(health::silence(context)))?;
    let (entities, all_shown) = entities(context).await?;
    Ok(MetricsSnapshot {
        now: shared.clock.utc(),
        metrics: std::sync::Arc::clone(shared.executor.metrics()),
        sockets: shared.connection_limit.taken(),
        certificate_expires_at: shared.tls.expires_at(),
        node,
        entities,
        all_shown,
    })
}

/// The entities in order of name, and whether these are all.
async fn entities(context: &RequestContext) -> Result<(Vec<ShownEntity>, bool), Refusal> {
    let core_client = CoreClient::of(context);
    let limit = context.shared.observe.max_entities;
    let mut shown: Vec<ShownEntity> = Vec::new();
    loop {
        let after = shown.last().map(|entity| entity.name.to_ascii_lowercase()).unwrap_or_default();
        context.shared.scrape_throttle.yield_to_traffic(&context.shared.executor).await;
        let query = EntityQuery::All { after: after.into(), top: PAGE };
        let answer = core_client.ask(vec![Command::Describe { query, ticket: Ticket(0) }]).await?;
        let Effect::Described { entities: page, .. } = answer else { return Ok((shown, true)) };
        let is_last = (page.len() as u64) < PAGE;
        shown.extend(page.into_iter().map(ShownEntity::new));
        if shown.len() > limit {
            shown.truncate(limit);
            return Ok((shown, false));
        }
        if is_last {
            return Ok((shown, true));
        }
    }
}
