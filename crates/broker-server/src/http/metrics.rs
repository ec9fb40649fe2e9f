//! `GET /metrics`: what the broker counts, as Prometheus reads it.
//!
//! Invariant: one scrape at a time, in pages between which the node does other work; how many entities are shown is
//! bounded.

use broker_auth::{Right, Scope};
use broker_core::{Command, Effect, Look, Ticket};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderValue},
};
use tokio::sync::Semaphore;

use super::{
    Visitor, access,
    answer::{Answer, Refusal},
    core::{self, Guest},
    health,
    pieces::Pieces,
};
use crate::exposition::{self, Picture, ShownEntity};

/// Entities that the node describes before it does something else.
const PAGE: u64 = 25;

/// The media type of `OpenMetrics` as text.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one scrape.
pub(super) async fn metrics(visitor: &Visitor, request: &Request<Incoming>) -> Result<Answer, Refusal> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method { allow: "GET, HEAD" });
    }
    if !visitor.shared.observe.anonymous_metrics {
        let seconds = visitor.shared.clock.now().wall.as_millis() / 1000;
        let wanted = (Right::Listen, &Scope::namespace());
        access::claim(&visitor.shared.authority, &visitor.peer, request.headers(), wanted, seconds)?;
    }
    let text = visitor.shared.scrapes.alone(text(visitor)).await.ok_or(Refusal::Stopping)??;
    let mut answer = Response::new(Pieces::of(text));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    Ok(answer)
}

/// Lets one scrape be made at a time; the others wait in the order in which they came.
pub(crate) struct Scrapes(Semaphore);

impl Default for Scrapes {
    fn default() -> Self {
        Self(Semaphore::new(1))
    }
}

impl Scrapes {
    /// Makes a scrape when its turn has come.
    async fn alone<T>(&self, scrape: impl Future<Output = T>) -> Option<T> {
        let _place = self.0.acquire().await.ok()?;
        Some(scrape.await)
    }
}

async fn text(visitor: &Visitor) -> Result<Vec<String>, Refusal> {
    let picture = picture(visitor).await?;
    // Text for thousands of entities takes longer than the connections of this thread should wait.
    let text = tokio::task::spawn_blocking(move || exposition::render(picture)).await;
    text.map_err(|_| Refusal::Stopping)
}

async fn picture(visitor: &Visitor) -> Result<Picture, Refusal> {
    let shared = &visitor.shared;
    let node = core::look(visitor, health::PATIENCE).await;
    let node = node.ok_or_else(|| Refusal::Trouble(health::silence(visitor)))?;
    let (entities, all_shown) = entities(visitor).await?;
    Ok(Picture {
        now: shared.clock.utc(),
        meters: std::sync::Arc::clone(shared.inbox.meters()),
        sockets: shared.places.taken(),
        certificate_expires_at: shared.tls.expires_at(),
        node,
        entities,
        all_shown,
    })
}

/// The entities in order of name, and whether these are all.
async fn entities(visitor: &Visitor) -> Result<(Vec<ShownEntity>, bool), Refusal> {
    let guest = Guest::of(visitor);
    let limit = visitor.shared.observe.max_entities;
    let mut shown: Vec<ShownEntity> = Vec::new();
    loop {
        let after = shown.last().map(|entity| entity.name.to_ascii_lowercase()).unwrap_or_default();
        visitor.shared.courtesy.give_way(&visitor.shared.inbox).await;
        let look = Look::All { after: after.into(), top: PAGE };
        let answer = guest.ask(vec![Command::Describe { look, ticket: Ticket(0) }]).await?;
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

#[cfg(test)]
mod tests;
