//! Upgrade from HTTP to AMQP over WebSocket (RFC 6455 section 4.2; OASIS AMQP WebSocket Binding 1.0).
//!
//! Invariant: a connection is upgraded only for a subprotocol that is AMQP.

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    answer::{HttpResponse, Refusal},
    context::{RequestContext, host_of},
    pieces::Pieces,
};

/// Whether a request wants to go on over WebSocket.
pub(super) fn asks<B>(request: &Request<B>) -> bool {
    *request.method() == Method::GET
        && words(request.headers(), UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"))
}

/// `GET /$servicebus/websocket`, or a path without a resource: accepts the upgrade. What follows on the connection is AMQP.
pub(super) fn upgrade(
    context: &RequestContext,
    mut request: Request<Incoming>,
) -> Result<HttpResponse, Refusal> {
    if request.method() != Method::GET {
        return Err(Refusal::Method { allow: "GET" });
    }
    let headers = request.headers();
    let (key, protocol) = wanted(headers)?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|_| Refusal::Bad("`Sec-WebSocket-Key` cannot be used".into()))?;
    let mut answer = Response::new(Pieces::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().extend([
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (SEC_WEBSOCKET_ACCEPT, accept),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol)),
    ]);
    context.set_upgrade_host(host_of(&request));
    context.upgrade_to(hyper::upgrade::on(&mut request));
    Ok(answer)
}

/// The key and the subprotocol of an upgrade that makes sense.
fn wanted(headers: &HeaderMap) -> Result<(&HeaderValue, &'static str), Refusal> {
    let says = |name, word: &str| words(headers, name).any(|said| said.eq_ignore_ascii_case(word));
    if !says(UPGRADE, "websocket") || !says(CONNECTION, "upgrade") || !says(SEC_WEBSOCKET_VERSION, "13") {
        return Err(Refusal::UpgradeRequired);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == KEY_BYTES);
    let key = key.ok_or_else(|| Refusal::Bad("`Sec-WebSocket-Key` is missing or not one".into()))?;
    let known = |said: &str| PROTOCOLS.into_iter().find(|known| known.eq_ignore_ascii_case(said));
    match words(headers, SEC_WEBSOCKET_PROTOCOL).find_map(known) {
        Some(protocol) => Ok((key, protocol)),
        None => Err(Refusal::Bad("`Sec-WebSocket-Protocol` has to offer `amqp` or `AMQPWSB10`".into())),
    }
}

/// The words of a header that lists some.
fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// The registered name, and the older one that most SDKs offer.
const PROTOCOLS: [&str; 2] = ["amqp", "AMQPWSB10"];
/// Sixteen bytes in base64.
const KEY_BYTES: usize = 24;

#[cfg(test)]
mod tests;
