//! From HTTP to AMQP over WebSocket (RFC 6455 section 4.2; `service-bus-wire` 1.3).
//!
//! Invariant: a connection is upgraded only for a subprotocol that is AMQP; a page of somebody else's site does not
//! get in where no secret keeps it out.

use std::net::IpAddr;

use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{
        CONNECTION, HOST, HeaderName, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    Visitor,
    answer::{Answer, Refusal},
    pieces::Pieces,
};

/// `GET /$servicebus/websocket`: accepts the upgrade. What follows on the connection is AMQP.
pub(super) fn upgrade(visitor: &Visitor, mut request: Request<Incoming>) -> Result<Answer, Refusal> {
    if request.method() != Method::GET {
        return Err(Refusal::Method { allow: "GET" });
    }
    let headers = request.headers();
    if !visitor.shared.foreign_origins {
        refuse_foreign(headers, visitor.peer.loopback)?;
    }
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
    visitor.upgrade_to(hyper::upgrade::on(&mut request));
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

/// Browsers say whose page it is that connects, and let every page connect to every place, this machine included.
/// Where the key is known to everybody, only pages from the broker's own host may. A name that some stranger makes
/// point to this machine is no host of ours either.
fn refuse_foreign(headers: &HeaderMap, loopback: bool) -> Result<(), Refusal> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let origin =
        origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host_of(host));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map(host_of);
    let ours = match (origin, host) {
        (Some(origin), Some(host)) => origin.eq_ignore_ascii_case(host) && (!loopback || is_local(host)),
        _ => false,
    };
    if ours {
        return Ok(());
    }
    Err(Refusal::forbidden(
        "a page of another site may not connect to a broker with the development key or for anonymous clients",
    ))
}

/// The host of `host[:port]`.
fn host_of(authority: &str) -> &str {
    let authority = authority.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// The registered name, and the older one that most SDKs offer.
const PROTOCOLS: [&str; 2] = ["amqp", "AMQPWSB10"];
/// Sixteen bytes in base64.
const KEY_BYTES: usize = 24;

#[cfg(test)]
mod tests;
