//! Faults that a test orders, lists and takes back.
//!
//! Invariant: each has an end: a number of times, or a time.

use std::time::Duration;

use amqp_gateway::{Fault, FaultKind, Faults};
use broker_auth::Scope;
use broker_core::Timestamp;
use hyper::{Method, Request, StatusCode, body::Incoming};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
    testing::{admit, audit, only, parse},
};
use crate::clock::millis;

/// Most strikes that may be ordered.
const COUNT_MAX: u64 = 1_000_000;
/// Longest time that may be ordered, in milliseconds: a day.
const TIME_MAX_MS: u64 = 86_400_000;

/// Body of a request for a fault.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    kind: String,
    #[serde(default)]
    entity: String,
    count: Option<u64>,
    for_ms: Option<u64>,
    delay_ms: Option<u64>,
}

/// `GET`, `POST` and `DELETE` of `/$ferrybus/faults`: shows, orders, takes all back.
pub(super) async fn faults(
    context: &RequestContext,
    request: Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    let who = admit(context, request.headers())?;
    let (table, now) = table(context)?;
    match *request.method() {
        Method::GET => {
            let all: Vec<Value> =
                table.list(now).iter().map(|(number, fault)| shown(*number, fault, now)).collect();
            Ok(json_answer(StatusCode::OK, &json!({ "faults": all })))
        }
        Method::DELETE => {
            audit(context, &who, "faults-clear", "all");
            Ok(cleared(table.clear(None, now)))
        }
        Method::POST => {
            let body = context.body(request.into_body()).await?;
            let fault = parse::<Order>(&body)?.fault(now)?;
            audit(context, &who, "fault-add", &format!("{:?} {}", fault.kind, fault.scope));
            let answer = |number| json_answer(StatusCode::CREATED, &shown(number, &fault, now));
            let ordered = table.order(fault.clone(), now).map(answer);
            let ordered = ordered.map_err(|error| Refusal::Bad(error.to_string()))?;
            if let Some(news) = &context.shared.faults {
                news.send_replace(());
            }
            Ok(ordered)
        }
        _ => Err(Refusal::Method { allow: "GET, POST, DELETE" }),
    }
}

/// `DELETE /$ferrybus/faults/NUMBER`: takes one back.
pub(super) fn fault(
    context: &RequestContext,
    request: &Request<Incoming>,
    number: u64,
) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::DELETE, "DELETE")?;
    let who = admit(context, request.headers())?;
    audit(context, &who, "fault-clear", &number.to_string());
    let (table, now) = table(context)?;
    match table.clear(Some(number), now) {
        0 => Err(Refusal::NotFound(request.uri().path().to_owned())),
        count => Ok(cleared(count)),
    }
}

fn table(context: &RequestContext) -> Result<(&Faults, Timestamp), Refusal> {
    let faults = context.shared.gateway.faults.as_deref();
    let faults = faults.ok_or_else(|| Refusal::forbidden("faults cannot be ordered here"))?;
    Ok((faults, context.shared.clock.utc()))
}

fn cleared(count: usize) -> HttpResponse {
    json_answer(StatusCode::OK, &json!({ "cleared": count }))
}

impl Order {
    fn fault(&self, now: Timestamp) -> Result<Fault, Refusal> {
        let bad = |what: String| Err(Refusal::Bad(what));
        if self.count.is_none() && self.for_ms.is_none() {
            return bad("a fault needs an end: `count` or `for_ms`".into());
        }
        if self.count.is_some_and(|count| count == 0 || count > COUNT_MAX) {
            return bad(format!("`count` is not within 1 to {COUNT_MAX}"));
        }
        for (name, time) in [("for_ms", self.for_ms), ("delay_ms", self.delay_ms)] {
            if time.is_some_and(|time| time == 0 || time > TIME_MAX_MS) {
                return bad(format!("`{name}` is not within 1 to {TIME_MAX_MS}"));
            }
        }
        Ok(Fault {
            kind: self.kind()?,
            scope: Scope::of_configured(&self.entity),
            left: self.count,
            until: self.for_ms.map(|time| now.after(Duration::from_millis(time))),
        })
    }

    fn kind(&self) -> Result<FaultKind, Refusal> {
        let kind = match (self.kind.as_str(), self.delay_ms) {
            ("lose-lock", None) => FaultKind::LoseLock,
            ("server-busy", None) => FaultKind::ServerBusy,
            ("drop-link", None) => FaultKind::DropLink,
            ("drop-connection", None) => FaultKind::DropConnection,
            ("reject-settlement", None) => FaultKind::RejectSettlement,
            ("delay-settlement", Some(delay)) => FaultKind::DelaySettlement(Duration::from_millis(delay)),
            ("delay-settlement", None) => return Err(Refusal::Bad("`delay_ms` is missing".into())),
            (kind, Some(_)) => return Err(Refusal::Bad(format!("`delay_ms` means nothing with `{kind}`"))),
            (kind, None) => {
                return Err(Refusal::Bad(format!("`{kind}` is not one of `{}`", KINDS.join("`, `"))));
            }
        };
        Ok(kind)
    }
}

/// A fault as it is shown.
fn shown(number: u64, fault: &Fault, now: Timestamp) -> Value {
    let (kind, delay) = match fault.kind {
        FaultKind::LoseLock => ("lose-lock", None),
        FaultKind::ServerBusy => ("server-busy", None),
        FaultKind::DropLink => ("drop-link", None),
        FaultKind::DropConnection => ("drop-connection", None),
        FaultKind::RejectSettlement => ("reject-settlement", None),
        FaultKind::DelaySettlement(delay) => ("delay-settlement", Some(delay)),
    };
    let left_ms = fault.until.map(|until| until.as_millis().saturating_sub(now.as_millis()));
    json!({
        "id": number,
        "kind": kind,
        "entity": fault.scope.as_str(),
        "count": fault.left,
        "for_ms": left_ms,
        "delay_ms": delay.map(millis),
    })
}

const KINDS: [&str; 6] =
    ["lose-lock", "server-busy", "drop-link", "drop-connection", "reject-settlement", "delay-settlement"];

#[cfg(test)]
mod tests;
