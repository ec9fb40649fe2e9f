//! Which path is answered by what.
//!
//! `/$ferrybus/…` is the broker's own: no entity's name begins with `$`, so it takes nothing from the management API,
//! whose paths are names of entities.
//!
//! Invariant: paths are told apart in one place, and each that is not known is refused.

use broker_core::NameScope;
use hyper::{Method, Request, Uri, body::Incoming};

use super::{
    admin,
    answer::{HttpResponse, Refusal},
    attempt::Attempt,
    connections,
    context::{RequestContext, host_of},
    faults, foreign,
    health::{self, Probe},
    limits, metrics, namespaces, testing, upgrade,
};
use crate::audit::Entry;

/// Answers one request.
pub(super) async fn answer(context: &RequestContext, request: Request<Incoming>) -> HttpResponse {
    let route = route(request.uri());
    // Plain clients open a WebSocket at `/`, `/amqp` or any other path, and no resource but that of AMQP has one.
    let opens_web_socket = route.is_none() && !is_ours(request.uri()) && upgrade::asks(&request);
    let route = if opens_web_socket { Some(Route::WebSocket) } else { route };
    let (context, unknown) = match context.of_host(host_of(&request)) {
        Ok(context) => (context, None),
        Err(refusal) => (context.clone(), Some(refusal)),
    };
    let context = &context;
    if let Err(refusal) = foreign::refuse(context, &request, route == Some(Route::WebSocket)) {
        return refused(context, &request, route.is_some() || is_ours(request.uri()), &refusal);
    }
    let attempt = route.and_then(|route| route.administration(&request));
    let answered = match route {
        Some(Route::Clock) => testing::clock(context, &request),
        Some(Route::Advance) => testing::advance(context, request).await,
        Some(Route::Faults) => faults::faults(context, request).await,
        Some(Route::Fault(number)) => faults::fault(context, &request, number),
        Some(Route::Metrics) => metrics::metrics(context, &request).await,
        Some(Route::Health(probe)) => health::health(context, &request, probe).await,
        Some(Route::Limits) => limits::limits(context, &request),
        Some(Route::Connections) => connections::list(context, &request).await,
        Some(Route::Connection(id)) => connections::end(context, &request, id),
        Some(Route::Namespaces) => namespaces::answer(context, request).await,
        Some(Route::WebSocket) => upgrade::upgrade(context, request),
        None if is_ours(request.uri()) => Err(Refusal::NotFound(request.uri().path().to_owned())),
        None if let Some(refusal) = unknown => return admin::refused(context, &request, &refusal),
        None => match broker_admin::Route::parse(request.uri().path(), names_of(request.uri())) {
            Ok(route) => return admin::answer(context, request, route).await,
            Err(error) => return admin::answer_nowhere(context, &request, error),
        },
    };
    answered.unwrap_or_else(|refusal| {
        note_refused(context, attempt, &refusal);
        refusal.answer()
    })
}

/// Has a refused attempt in the audit log.
fn note_refused(context: &RequestContext, attempt: Option<Attempt>, refusal: &Refusal) {
    let wanted = attempt.as_ref().map_or_else(|| "read".to_owned(), Attempt::in_words);
    if context.note_refused_login(refusal, None, "", &wanted) {
        return;
    }
    if let Some(Attempt { action, namespace, subject }) = attempt
        && refusal.is_of_rights()
    {
        let reason = format!("status {}", refusal.status().as_u16());
        let (who, from, refused) = (refusal.who(), context.from, Some(reason.as_str()));
        context.shared.audit.write(Entry {
            who,
            from,
            action,
            namespace: &namespace,
            entity: "",
            subject: &subject,
            refused,
        });
    }
}

/// Refusal of a request from a page of another site, or for another host.
fn refused(
    context: &RequestContext,
    request: &Request<Incoming>,
    is_ours: bool,
    refusal: &Refusal,
) -> HttpResponse {
    let status = refusal.status().as_u16();
    let (action, subject) = ("foreign-request", request.uri().path());
    let reason = format!("status {status}");
    let (from, refused) = (context.from, Some(reason.as_str()));
    context.shared.audit.write(Entry {
        who: None,
        from,
        action,
        namespace: "",
        entity: "",
        subject,
        refused,
    });
    if is_ours { refusal.answer() } else { admin::refused(context, request, refusal) }
}

impl Route {
    /// Action and object in the audit log; `None` for requests that administer nothing.
    fn administration<B>(self, request: &Request<B>) -> Option<Attempt> {
        let method = request.method();
        let read = *method == Method::GET;
        let (action, subject) = match self {
            Self::Clock => ("clock-read", String::new()),
            Self::Advance => ("clock-advance", String::new()),
            Self::Faults if read => ("fault-list", String::new()),
            Self::Faults if *method == Method::DELETE => ("faults-clear", "all".to_owned()),
            Self::Faults => ("fault-add", String::new()),
            Self::Fault(number) => ("fault-clear", number.to_string()),
            Self::Limits => ("limits-read", String::new()),
            Self::Connections => ("connection-list", String::new()),
            Self::Connection(id) => ("connection-close", id.to_string()),
            Self::Namespaces => return Some(namespaces::attempt(method, request.uri().path())),
            Self::Metrics | Self::Health(_) | Self::WebSocket => return None,
        };
        Some(Attempt { action, namespace: String::new(), subject })
    }
}

/// Resource of the broker's own HTTP interface.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Route {
    Clock,
    /// Move it forward.
    Advance,
    Faults,
    Fault(u64),
    Metrics,
    Health(Probe),
    Limits,
    Connections,
    Connection(u64),
    /// All namespaces, one of them, or a key of one.
    Namespaces,
    /// Go on in AMQP.
    WebSocket,
}

/// The entities that a management request is about. A query that cannot be read is refused later.
fn names_of(uri: &Uri) -> NameScope {
    broker_admin::Query::parse(uri.query().unwrap_or_default()).map(|query| query.names).unwrap_or_default()
}

/// Case does not matter, nor a slash at the end, nor whether `$` is escaped: clients differ in all three.
fn plain_path(uri: &Uri) -> String {
    uri.path().trim_end_matches('/').to_ascii_lowercase().replacen("%24", "$", 1)
}

/// Whether a path is the broker's own, or one to go on in AMQP, and not the management API's.
fn is_ours(uri: &Uri) -> bool {
    let path = plain_path(uri);
    ["/$ferrybus", "/$servicebus"].into_iter().any(|ours| path.starts_with(ours))
}

fn route(uri: &Uri) -> Option<Route> {
    let path = plain_path(uri);
    if let Some(number) = path.strip_prefix("/$ferrybus/faults/") {
        return number.parse().ok().map(Route::Fault);
    }
    if let Some(id) = path.strip_prefix("/$ferrybus/connections/") {
        return id.parse().ok().map(Route::Connection);
    }
    if namespaces::is_path(&path) {
        return Some(Route::Namespaces);
    }
    if let Some((_, route)) = ROUTES.iter().find(|(known, _)| *known == path) {
        return Some(*route);
    }
    // An entity may have such a name. A management request says so in its query.
    let is_managed = uri.query().is_some_and(|query| query.to_ascii_lowercase().contains("api-version"));
    let (_, route) = WATCHED.iter().find(|(known, _)| *known == path && !is_managed)?;
    Some(*route)
}

const ROUTES: [(&str, Route); 6] = [
    ("/$ferrybus/limits", Route::Limits),
    ("/$ferrybus/connections", Route::Connections),
    ("/$ferrybus/faults", Route::Faults),
    ("/$ferrybus/clock", Route::Clock),
    ("/$ferrybus/clock/advance", Route::Advance),
    ("/$servicebus/websocket", Route::WebSocket),
];

/// Paths that programs know which watch others.
const WATCHED: [(&str, Route); 5] = [
    ("/metrics", Route::Metrics),
    ("/healthz", Route::Health(Probe::Alive)),
    ("/readyz", Route::Health(Probe::Ready)),
    ("/readyz/sends", Route::Health(Probe::Sends)),
    ("/health", Route::Health(Probe::Emulator)),
];

#[cfg(test)]
mod tests;
