//! Management API, on the side of the socket: log-in, commands to the core, and the response.
//!
//! Invariant: nothing is asked of the core for a request that was not admitted, and no answer leaves before the core
//! has said that it is durable.

use std::sync::atomic::Ordering;

use amqp_gateway::{Severity, http_trail};
use broker_admin::{Answer, Host, Match, Method, Pending, Query, Request, Route, RouteError, Step};
use broker_auth::{Right, Scope};
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Incoming,
    header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, HeaderValue, IF_MATCH},
    http::request::Parts,
};

mod lacking;

use lacking::Lacking;

use super::{access, answer::Refusal, context::RequestContext, core_client::CoreClient, pieces::Pieces};
use crate::{audit::Entry, clock, config::MissingRight};

/// Tokens for the entities that messages and dead letters are forwarded to.
const SUPPLEMENTARY: [&str; 2] =
    ["servicebussupplementaryauthorization", "servicebusdlqsupplementaryauthorization"];

/// A client's own name for its request, and whether it wants to read it in the answer.
const REQUEST_ID: &str = "x-ms-client-request-id";
const RETURN_ID: &str = "x-ms-return-client-request-id";

/// Characters of host and path in the text of a refusal.
const PLACE_CHARS_MAX: usize = 512;

/// Answers a request of the management API.
pub(super) async fn answer(
    context: &RequestContext,
    request: hyper::Request<Incoming>,
    route: Route,
) -> Response<Pieces> {
    let change = change(&request);
    let place = route.resource();
    let lacking = Lacking::of(request.method(), &route);
    let mut phrase = None;
    let request_id = wanted_id(request.headers());
    let host = request.headers().get(HOST).cloned();
    let mut who = None;
    let answered = exchange(context, request, route, &mut who).await;
    let (mut is_of_rights, mut is_of_login) = (false, false);
    let answer = answered.unwrap_or_else(|refusal| {
        is_of_rights = refusal.is_of_rights();
        is_of_login = context.note_refused_login(&refusal, who.as_deref(), &place, change.unwrap_or("read"));
        who = who.take().or_else(|| refusal.who().map(Box::from));
        match refusal {
            // The service knows no other answer, and some clients of it no other exception.
            Refusal::Forbidden { .. } if context.shared.missing_right == MissingRight::Unauthorized => {
                phrase = lacking.phrase;
                Answer::error(StatusCode::UNAUTHORIZED.as_u16(), &format!("{}.", lacking.detail))
            }
            refusal => said(&refusal),
        }
    });
    // Reading is not audited, a refusal is.
    if !is_of_login && let Some(action) = change.or(is_of_rights.then_some("read")) {
        let reason = (answer.status >= 400).then(|| format!("status {}", answer.status));
        let (from, refused) = (context.from, reason.as_deref());
        let namespace = &*context.namespace.name;
        let entry =
            Entry { who: who.as_deref(), from, action, namespace, entity: &place, subject: "", refused };
        context.shared.audit.write(entry);
    }
    let mut response = http(tracked(context, answer, host.as_ref(), &place), request_id);
    if let Some(phrase) = phrase {
        response.extensions_mut().insert(phrase);
    }
    response
}

/// Answers a request for a path that nothing of this API has.
pub(super) fn answer_nowhere(
    context: &RequestContext,
    request: &hyper::Request<Incoming>,
    error: RouteError,
) -> Response<Pieces> {
    let answer = match admit(context, request.headers(), &Scope::of(request.uri().path())) {
        Ok(_) => Answer::bad_request(&error.to_string()),
        Err(refusal) => {
            context.note_refused_login(&refusal, None, request.uri().path(), "read");
            said(&refusal)
        }
    };
    let (host, path) = (request.headers().get(HOST), request.uri().path().trim_matches('/'));
    http(tracked(context, answer, host, path), wanted_id(request.headers()))
}

/// Answers a request that is refused before it is parsed.
pub(super) fn refused(
    context: &RequestContext,
    request: &hyper::Request<Incoming>,
    refusal: &Refusal,
) -> Response<Pieces> {
    let (host, path) = (request.headers().get(HOST), request.uri().path().trim_matches('/'));
    http(tracked(context, said(refusal), host, path), wanted_id(request.headers()))
}

/// A refusal with what its reader quotes to the operator behind its text; the operator finds it in the log.
fn tracked(context: &RequestContext, answer: Answer, host: Option<&HeaderValue>, path: &str) -> Answer {
    if answer.status < 400 {
        return answer;
    }
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    // Both are the client's, and as long as it likes.
    let place: String = format!("{host}:{path}").chars().take(PLACE_CHARS_MAX).collect();
    let shared = &context.shared;
    let number = shared.refusals.fetch_add(1, Ordering::Relaxed) + 1;
    let trail = http_trail(shared.seed, number, &place, shared.clock.utc());
    let answer = answer.with_trail(&trail);
    let condition = format!("status {}", answer.status);
    // A client that asks whether something is there is answered that it is not.
    let severity = if answer.status == 404 { Severity::Routine } else { Severity::Warning };
    let (log, text) = (&shared.gateway.refusals, answer.body.concat());
    log.write(clock::instant(), severity, &context.namespace.name, &condition, &text);
    answer
}

/// The client's own name for a request, where it wants to read it again.
fn wanted_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_wanted =
        headers.get(RETURN_ID).is_some_and(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"true"));
    headers.get(REQUEST_ID).filter(|_| is_wanted).cloned()
}

async fn exchange(
    context: &RequestContext,
    request: hyper::Request<Incoming>,
    route: Route,
    who: &mut Option<Box<str>>,
) -> Result<Answer, Refusal> {
    let (parts, body) = request.into_parts();
    let admitted = admit(context, &parts.headers, &Scope::of_name(&route.resource()));
    let looks_only = match admitted {
        Ok(name) => {
            *who = Some(name);
            None
        }
        Err(refusal) if may_look(context, &parts, &route) => Some(refusal),
        Err(refusal) => return Err(refusal),
    };
    let method = match parts.method {
        hyper::Method::GET => Method::Get,
        hyper::Method::PUT => Method::Put,
        hyper::Method::DELETE => Method::Delete,
        _ => return Err(Refusal::Method { allow: "GET, PUT, DELETE" }),
    };
    let query = match Query::parse(parts.uri.query().unwrap_or_default()) {
        Ok(query) => query,
        Err(reason) => return Ok(Answer::bad_request(&reason)),
    };
    let body = context.body(body).await?;
    let authority = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let step = broker_admin::begin(Request {
        method,
        route,
        query,
        condition: parts.headers.get(IF_MATCH).map(|text| Match::parse(text.to_str().unwrap_or_default())),
        body: &body,
        host: Host::new(context.peer.tls, authority),
        namespace: context.namespace_info(),
        now: context.shared.clock.utc(),
    });
    let answer = follow(context, &parts.headers, step).await?;
    match looks_only {
        // An entity has a tag, the feed that stands for a missing one has none.
        Some(refusal) if answer.etag.is_some() => Err(refusal),
        _ => Ok(answer),
    }
}

/// Whether a client that may not manage is told of a queue or topic that is missing: the service tells it to who may send or
/// receive there. Not for a name that no entity can have, by which clients find out whether they may manage.
fn may_look(context: &RequestContext, parts: &Parts, route: &Route) -> bool {
    let Route::Entity(name) = route else { return false };
    let scope = Scope::of_name(name);
    let has =
        |right| access::claim(context, &context.namespace.authority, &parts.headers, (right, &scope)).is_ok();
    parts.method == hyper::Method::GET
        && !name.starts_with('$')
        && [Right::Send, Right::Listen].into_iter().any(has)
}

/// Asks the core until there is an answer.
async fn follow(context: &RequestContext, headers: &HeaderMap, mut step: Step) -> Result<Answer, Refusal> {
    let core_client = CoreClient::of(context);
    loop {
        let (commands, pending) = match step {
            Step::Answer(answer) => return Ok(answer),
            Step::Ask(commands, pending) => (commands, pending),
        };
        for target in Pending::targets(&commands) {
            admit_target(context, headers, target)?;
        }
        if pending.lists() {
            context.shared.scrape_throttle.yield_to_traffic(&context.namespace.executor).await;
        }
        step = pending.resume(core_client.ask(commands).await?);
        if matches!(step, Step::Ask(..)) {
            // The other connections of this thread have their turn.
            tokio::task::yield_now().await;
        }
    }
}

/// Action in the audit log of a request that changes something.
fn change(request: &hyper::Request<Incoming>) -> Option<&'static str> {
    match *request.method() {
        hyper::Method::PUT if request.headers().contains_key(IF_MATCH) => Some("update"),
        hyper::Method::PUT => Some("create"),
        hyper::Method::DELETE => Some("delete"),
        _ => None,
    }
}

/// Admits a client that may manage the namespace or the scope; returns its name.
pub(super) fn admit(
    context: &RequestContext,
    headers: &HeaderMap,
    scope: &Scope,
) -> Result<Box<str>, Refusal> {
    access::claim(context, &context.namespace.authority, headers, (Right::Manage, scope))
}

/// Admits an administrator of the installation; returns its name.
pub(super) fn admit_administrator(
    context: &RequestContext,
    headers: &HeaderMap,
    right: Right,
) -> Result<Box<str>, Refusal> {
    let (authority, right) = context.shared.administrators.judge(right);
    access::claim(context, &authority, headers, (right, &Scope::namespace()))
}

/// Forwarding needs the right to manage the target too: by the request's own token, or by one that came for it.
fn admit_target(context: &RequestContext, headers: &HeaderMap, target: &str) -> Result<Box<str>, Refusal> {
    let scope = Scope::of_name(target);
    let own = admit(context, headers, &scope);
    if own.is_ok() {
        return own;
    }
    let others = SUPPLEMENTARY.iter().filter_map(|name| headers.get(*name));
    let admitted = others.map(|token| {
        let mut headers = headers.clone();
        headers.insert(AUTHORIZATION, token.clone());
        admit(context, &headers, &scope)
    });
    admitted.into_iter().find(Result::is_ok).unwrap_or(own)
}

/// A refusal of the transport, as this API's clients read it.
fn said(refusal: &Refusal) -> Answer {
    let (status, code) = match refusal {
        Refusal::Unauthorized(_, code, _) => (refusal.status(), format!("SubCode={}. ", *code as u32)),
        Refusal::Forbidden { .. } => (refusal.status(), "SubCode=40301. ".to_owned()),
        _ => (refusal.status(), String::new()),
    };
    Answer::error(status.as_u16(), &format!("{code}{refusal}."))
}

fn http(answer: Answer, request_id: Option<HeaderValue>) -> Response<Pieces> {
    let mut response = Response::new(Pieces::of(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(kind) = answer.content_type {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    if let Some(tag) = answer.etag {
        headers.insert(ETAG, HeaderValue::from(tag));
    }
    if let Some(id) = request_id {
        headers.insert(REQUEST_ID, id);
    }
    if answer.status == 405 {
        headers.insert(ALLOW, HeaderValue::from_static("GET, PUT, DELETE"));
    }
    response
}
