//! Connections: listed, and closed on request.
//!
//! Invariant: a connection that does not answer in time is listed all the same, without what only it knows.

use std::{sync::Arc, time::Duration};

use broker_auth::Scope;
use broker_core::Timestamp;
use hyper::{Method, Request, StatusCode, body::Incoming};
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use super::{
    admin,
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
    testing::{self, only},
};
use crate::{
    audit,
    connections::Entry,
    effect_queue::{ControlMessage, Report},
};

/// Time for all connections together to say what they are.
const REPORT_TIME: Duration = Duration::from_secs(2);

/// `GET /$ferrybus/connections`: all there are.
pub(super) async fn list(
    context: &RequestContext,
    request: &Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::GET, "GET")?;
    admin::admit(context, request.headers(), &Scope::namespace())?;
    let asked: Vec<_> = context.shared.listing.all().into_iter().map(|(id, entry)| ask(id, entry)).collect();
    let end = Instant::now() + REPORT_TIME;
    let mut all = Vec::with_capacity(asked.len());
    for (id, entry, report) in asked {
        let report = timeout_at(end, report).await.ok().and_then(Result::ok);
        all.push(shown(id, &entry, report, context.shared.clock.utc()));
    }
    Ok(json_answer(StatusCode::OK, &json!({ "connections": all })))
}

fn ask(id: u64, entry: Arc<Entry>) -> (u64, Arc<Entry>, oneshot::Receiver<Report>) {
    let (tell, reports) = oneshot::channel();
    entry.effect_queue.ask(ControlMessage::Report(tell));
    (id, entry, reports)
}

/// `DELETE /$ferrybus/connections/ID`: ends one, which is told so.
pub(super) fn end(
    context: &RequestContext,
    request: &Request<Incoming>,
    id: u64,
) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::DELETE, "DELETE")?;
    let who = admin::admit(context, request.headers(), &Scope::namespace())?;
    let Some(entry) = context.shared.listing.get(id) else {
        let refused = Some("status 404");
        let (who, from, action, subject) = (Some(&*who), context.from, "connection-close", &*id.to_string());
        let entry = audit::Entry { who, from, action, namespace: "", entity: "", subject, refused };
        context.shared.audit.write(entry);
        return Err(Refusal::NotFound(request.uri().path().to_owned()));
    };
    entry.effect_queue.ask(ControlMessage::End);
    testing::audit(context, &who, "connection-close", &format!("{id} {}", entry.address));
    Ok(json_answer(StatusCode::OK, &json!({ "closed": id })))
}

fn shown(id: u64, entry: &Entry, report: Option<Report>, now: Timestamp) -> Value {
    let mut shown = json!({
        "id": id,
        "peer": entry.address.to_string(),
        "transport": entry.transport.name(),
        "since_ms": entry.since.as_millis(),
    });
    if let (Some(Report { about, bytes_in, bytes_out }), Some(shown)) = (report, shown.as_object_mut()) {
        let protocol = if about.is_service_bus { "service-bus" } else { "amqp" };
        // The broker knows the second in which it went out.
        let age = |since: Timestamp| now.as_millis().saturating_sub(since.as_millis()) / 1_000;
        let facts = json!({
            "namespace": about.namespace,
            "container_id": about.container_id,
            "user": about.user,
            "keys": about.keys,
            "protocol": protocol,
            "sessions": about.sessions,
            "links": about.links,
            "unsettled": about.unsettled,
            "oldest_unsettled_seconds": about.oldest_unsettled.map(age),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
        });
        shown.extend(facts.as_object().cloned().unwrap_or_default());
    }
    shown
}
