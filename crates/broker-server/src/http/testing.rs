//! Test interface: advances the clock and injects faults.
//!
//! Invariant: has an effect only in a broker that was started for testing, and only for administrators of the
//! installation.

use std::{sync::Arc, time::Duration};

use broker_auth::{Right, Scope};
use hyper::{HeaderMap, Method, Request, StatusCode, body::Incoming};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::{
    access,
    answer::{HttpResponse, Refusal, json_answer},
    context::RequestContext,
};
use crate::{
    audit::Entry,
    clock::{AHEAD_MAX, millis},
    executor::{Executor, ExecutorItem},
};

/// Body of a request to move the clock.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    /// Milliseconds.
    by_ms: u64,
}

/// `GET /$ferrybus/clock`: the broker's time, and how far it is ahead of the real one.
pub(super) fn clock(context: &RequestContext, request: &Request<Incoming>) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::GET, "GET")?;
    admit(context, request.headers())?;
    Ok(time_response(context, context.shared.clock.utc().as_millis()))
}

/// `POST /$ferrybus/clock/advance`: moves the broker's time forward, and answers when all that became due is done.
pub(super) async fn advance(
    context: &RequestContext,
    request: Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    only(request.method(), &Method::POST, "POST")?;
    let who = admit(context, request.headers())?;
    let body = context.body(request.into_body()).await?;
    let asked: Advance = parse(&body)?;
    audit(context, &who, "clock-advance", &format!("{} ms", asked.by_ms));
    let advance = |executor: &Arc<Executor>, by| {
        let (tell, new_time) = oneshot::channel();
        executor.push(ExecutorItem::Advance(by, tell));
        new_time
    };
    // All shards have one clock: the first one moves it, and the others do what has become due.
    let shards = &context.shared.shards;
    let first = advance(shards.first(), Duration::from_millis(asked.by_ms)).await;
    if matches!(first, Ok(Some(_))) {
        for executor in shards.all().iter().skip(1) {
            advance(executor, Duration::ZERO).await.ok();
        }
    }
    match first {
        Ok(Some(now)) => Ok(time_response(context, now.as_millis())),
        Ok(None) => {
            let days = AHEAD_MAX.as_secs() / 86_400;
            Err(Refusal::Bad(format!("the clock cannot be more than {days} days ahead")))
        }
        Err(_) => Err(Refusal::Stopping),
    }
}

fn time_response(context: &RequestContext, now_ms: u64) -> HttpResponse {
    let ahead_ms = millis(context.shared.clock.ahead());
    json_answer(StatusCode::OK, &json!({ "now_ms": now_ms, "ahead_ms": ahead_ms }))
}

/// Authorizes an administrator of the installation, in a broker that was started for testing; returns its identity.
pub(super) fn admit(context: &RequestContext, headers: &HeaderMap) -> Result<Box<str>, Refusal> {
    let shared = &context.shared;
    let (authority, right) = shared.administrators.judge(Right::Manage);
    let who = access::claim(context, &authority, headers, (right, &Scope::namespace()))?;
    if shared.faults.is_none() {
        let why = "the broker was not started with `--testing`".into();
        return Err(Refusal::Forbidden { who, why });
    }
    Ok(who)
}

/// Logs the request of an authorized client.
pub(super) fn audit(context: &RequestContext, who: &str, action: &str, subject: &str) {
    let entry = Entry {
        who: Some(who),
        from: context.from,
        action,
        namespace: "",
        entity: "",
        subject,
        refused: None,
    };
    context.shared.audit.write(entry);
}

pub(super) fn only(method: &Method, wanted: &Method, allow: &'static str) -> Result<(), Refusal> {
    if method == wanted { Ok(()) } else { Err(Refusal::Method { allow }) }
}

pub(super) fn parse<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::Bad(format!("the body is not what is expected: {error}")))
}
