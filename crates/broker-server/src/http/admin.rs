//! The management API on the socket's side: who asks, what the core is asked, and the answer.
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
};

use super::{
    Visitor, access,
    answer::{Refusal, Unproven},
    core::Guest,
    pieces::Pieces,
};
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
    visitor: &Visitor,
    request: hyper::Request<Incoming>,
    route: Route,
) -> Response<Pieces> {
    let change = change(&request);
    let place = route.resource();
    let request_id = wanted_id(request.headers());
    let host = request.headers().get(HOST).cloned();
    let mut who = None;
    let answered = exchange(visitor, request, route, &mut who).await;
    let (mut is_of_rights, mut is_of_login) = (false, false);
    let answer = answered.unwrap_or_else(|refusal| {
        is_of_rights = refusal.is_of_rights();
        is_of_login = visitor.note_refused_login(&refusal, who.as_deref(), &place, change.unwrap_or("read"));
        who = who.take().or_else(|| refusal.who().map(Box::from));
        said(visitor, &refusal)
    });
    // Who looks leaves no trace, who is not let in does.
    if !is_of_login && let Some(action) = change.or(is_of_rights.then_some("read")) {
        let reason = (answer.status >= 400).then(|| format!("status {}", answer.status));
        let (from, refused) = (visitor.from, reason.as_deref());
        let entry = Entry { who: who.as_deref(), from, action, entity: &place, subject: "", refused };
        visitor.shared.audit.write(entry);
    }
    http(tracked(visitor, answer, host.as_ref(), &place), request_id)
}

/// Answers a request for a path that nothing of this API has.
pub(super) fn answer_nowhere(
    visitor: &Visitor,
    request: &hyper::Request<Incoming>,
    error: RouteError,
) -> Response<Pieces> {
    let answer = match admit(visitor, request.headers(), &Scope::of(request.uri().path())) {
        Ok(_) => Answer::bad_request(&error.to_string()),
        Err(refusal) => {
            visitor.note_refused_login(&refusal, None, request.uri().path(), "read");
            said(visitor, &refusal)
        }
    };
    let (host, path) = (request.headers().get(HOST), request.uri().path().trim_matches('/'));
    http(tracked(visitor, answer, host, path), wanted_id(request.headers()))
}

/// Answers a request that is refused before anybody looks what it asks.
pub(super) fn refused(
    visitor: &Visitor,
    request: &hyper::Request<Incoming>,
    refusal: &Refusal,
) -> Response<Pieces> {
    let (host, path) = (request.headers().get(HOST), request.uri().path().trim_matches('/'));
    http(tracked(visitor, said(visitor, refusal), host, path), wanted_id(request.headers()))
}

/// A refusal with what its reader quotes to the operator behind its text; the operator finds it in the log.
fn tracked(visitor: &Visitor, answer: Answer, host: Option<&HeaderValue>, path: &str) -> Answer {
    if answer.status < 400 {
        return answer;
    }
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    // Both are the client's, and as long as it likes.
    let place: String = format!("{host}:{path}").chars().take(PLACE_CHARS_MAX).collect();
    let shared = &visitor.shared;
    let number = shared.refusals.fetch_add(1, Ordering::Relaxed) + 1;
    let trail = http_trail(shared.seed, number, &place, shared.clock.utc());
    let answer = answer.with_trail(&trail);
    let condition = format!("status {}", answer.status);
    // A client that asks whether something is there is answered that it is not.
    let severity = if answer.status == 404 { Severity::Routine } else { Severity::Warning };
    shared.gateway.refusals.write(clock::instant(), severity, &condition, &answer.body.concat());
    answer
}

/// The client's own name for a request, where it wants to read it again.
fn wanted_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_wanted =
        headers.get(RETURN_ID).is_some_and(|wanted| wanted.as_bytes().eq_ignore_ascii_case(b"true"));
    headers.get(REQUEST_ID).filter(|_| is_wanted).cloned()
}

async fn exchange(
    visitor: &Visitor,
    request: hyper::Request<Incoming>,
    route: Route,
    who: &mut Option<Box<str>>,
) -> Result<Answer, Refusal> {
    let (parts, body) = request.into_parts();
    *who = Some(admit(visitor, &parts.headers, &Scope::of(&route.resource()))?);
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
    let body = visitor.body(body).await?;
    let authority = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let step = broker_admin::begin(Request {
        method,
        route,
        query,
        condition: parts.headers.get(IF_MATCH).map(|text| Match::parse(text.to_str().unwrap_or_default())),
        body: &body,
        host: Host::new(visitor.peer.tls, authority),
        namespace: visitor.shared.namespace,
        now: visitor.shared.clock.utc(),
    });
    follow(visitor, &parts.headers, step).await
}

/// Asks the core until there is an answer.
async fn follow(visitor: &Visitor, headers: &HeaderMap, mut step: Step) -> Result<Answer, Refusal> {
    let guest = Guest::of(visitor);
    loop {
        let (commands, pending) = match step {
            Step::Answer(answer) => return Ok(answer),
            Step::Ask(commands, pending) => (commands, pending),
        };
        for target in Pending::targets(&commands) {
            admit_target(visitor, headers, target)?;
        }
        if pending.lists() {
            visitor.shared.courtesy.give_way(&visitor.shared.inbox).await;
        }
        step = pending.resume(guest.ask(commands).await?);
        if matches!(step, Step::Ask(..)) {
            // The other connections of this thread have their turn.
            tokio::task::yield_now().await;
        }
    }
}

/// What the audit log calls a request that changes something.
fn change(request: &hyper::Request<Incoming>) -> Option<&'static str> {
    match *request.method() {
        hyper::Method::PUT if request.headers().contains_key(IF_MATCH) => Some("update"),
        hyper::Method::PUT => Some("create"),
        hyper::Method::DELETE => Some("delete"),
        _ => None,
    }
}

/// Who manages the namespace or the place is let in; says who it is.
pub(super) fn admit(visitor: &Visitor, headers: &HeaderMap, scope: &Scope) -> Result<Box<str>, Refusal> {
    let seconds = visitor.shared.clock.now().wall.as_millis() / 1000;
    access::claim(&visitor.shared.authority, &visitor.peer, headers, (Right::Manage, scope), seconds)
}

/// Forwarding needs the right to manage the target too: by the request's own token, or by one that came for it.
fn admit_target(visitor: &Visitor, headers: &HeaderMap, target: &str) -> Result<Box<str>, Refusal> {
    let scope = Scope::of(target);
    let own = admit(visitor, headers, &scope);
    if own.is_ok() {
        return own;
    }
    let others = SUPPLEMENTARY.iter().filter_map(|name| headers.get(*name));
    let admitted = others.map(|token| {
        let mut headers = headers.clone();
        headers.insert(AUTHORIZATION, token.clone());
        admit(visitor, &headers, &scope)
    });
    admitted.into_iter().find(Result::is_ok).unwrap_or(own)
}

/// A refusal of the transport, as this API's clients read it.
fn said(visitor: &Visitor, refusal: &Refusal) -> Answer {
    let (status, code) = match refusal {
        Refusal::Unauthorized(_, code, _) => (refusal.status(), format!("SubCode={}. ", *code as u32)),
        // The service knows no other answer, and some clients of it no other exception.
        Refusal::Forbidden { .. } if visitor.shared.missing_right == MissingRight::Unauthorized => {
            (StatusCode::UNAUTHORIZED, format!("SubCode={}. ", Unproven::Generic as u32))
        }
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
