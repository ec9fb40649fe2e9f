//! Connections: listed, and closed on request.
//!
//! Invariant: a connection that does not answer in time is listed all the same, without what only it knows.

use std::{sync::Arc, time::Duration};

use broker_auth::{Right, Scope};
use broker_core::Timestamp;
use broker_node::NamespaceId;
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
    testing::only,
};
use crate::{
    audit,
    connections::Entry,
    effect_queue::{ControlMessage, Report},
    namespaces::ServedNamespace,
};

/// Time for all connections together to say what they are.
const REPORT_TIME: Duration = Duration::from_secs(2);

/// `GET /$ferrybus/connections`: all there are.
pub(super) async fn list(
    context: &RequestContext,
    request: &Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::GET, "GET")?;
    let seen = Seen::by(context, request)?;
    let all = context.shared.listing.all().into_iter().filter(|(_, entry)| seen.includes(entry));
    let asked: Vec<_> = all.map(|(id, entry)| ask(id, entry)).collect();
    let end = Instant::now() + REPORT_TIME;
    let mut all = Vec::with_capacity(asked.len());
    for (id, entry, report) in asked {
        let report = timeout_at(end, report).await.ok().and_then(Result::ok);
        all.push(shown(id, &entry, report, context.shared.clock.utc()));
    }
    Ok(json_answer(StatusCode::OK, &json!({ "connections": all })))
}

/// The connections that a client sees: an administrator all, and who manages a namespace those of that.
struct Seen {
    who: Box<str>,
    /// `None`: all.
    namespace: Option<NamespaceId>,
}

impl Seen {
    fn by(context: &RequestContext, request: &Request<Incoming>) -> Result<Self, Refusal> {
        if let Ok(who) = admin::admit_administrator(context, request.headers(), Right::Manage) {
            return Ok(Self { who, namespace: None });
        }
        let who = admin::admit(context, request.headers(), &Scope::namespace())?;
        Ok(Self { who, namespace: Some(context.namespace.id) })
    }

    fn includes(&self, entry: &Entry) -> bool {
        self.namespace.is_none() || entry.namespace().map(|namespace| namespace.id) == self.namespace
    }
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
    let seen = Seen::by(context, request)?;
    let Some(entry) = context.shared.listing.get(id).filter(|entry| seen.includes(entry)) else {
        let asked_in = seen.namespace.map(|_| &context.namespace);
        audit_end(context, &seen.who, asked_in, &id.to_string(), Some("status 404"));
        return Err(Refusal::NotFound(request.uri().path().to_owned()));
    };
    entry.effect_queue.ask(ControlMessage::End);
    audit_end(context, &seen.who, entry.namespace(), &format!("{id} {}", entry.address), None);
    Ok(json_answer(StatusCode::OK, &json!({ "closed": id })))
}

fn audit_end(
    context: &RequestContext,
    who: &str,
    namespace: Option<&Arc<ServedNamespace>>,
    subject: &str,
    refused: Option<&str>,
) {
    let namespace = namespace.map(|namespace| namespace.definition());
    context.shared.audit.write(audit::Entry {
        who: Some(who),
        from: context.from,
        action: "connection-close",
        namespace: namespace.as_ref().map_or("", |definition| &definition.name),
        entity: "",
        subject,
        refused,
    });
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
