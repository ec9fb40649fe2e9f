//! Keeps pages of other sites out, which a browser lets speak to every host, the machine that it runs on included.
//!
//! A page cannot read what another host answers unless that allows it, but it can send: so what a page of another site
//! asks must change nothing. And a site can have its own name point to this broker after its page has come ("DNS
//! rebinding"): to the browser the broker is then that site itself. So a request must be for a name of this broker.
//!
//! Invariant: both are decided before anything else is looked at, on every path.

use std::net::IpAddr;

use broker_auth::{HostNames, split_authority};
use hyper::{HeaderMap, Method, Request, header::ORIGIN};

use super::{
    answer::Refusal,
    context::{RequestContext, host_of},
};

/// Refuses what a page of another site asks, and what is for another host.
pub(super) fn refuse<B>(
    context: &RequestContext,
    request: &Request<B>,
    is_web_socket: bool,
) -> Result<(), Refusal> {
    let authority = &context.namespace.authority;
    let is_open = authority.is_open();
    let headers = request.headers();
    // Pages may connect where a secret keeps strangers out: SDKs run in pages, too, and log in behind that.
    let changes = if is_web_socket { is_open } else { !is_safe(request.method()) };
    let host = host_of(request).unwrap_or_default();
    if changes && let Some(origin) = headers.get(ORIGIN) {
        let origin = origin.to_str().unwrap_or("null");
        if !is_of(origin, host, is_web_socket) {
            return Err(Refusal::ForeignPage(origin.chars().take(SHOWN_CHARS_MAX).collect()));
        }
    }
    // Without a secret even reading is refused. A browser says more than other clients, but not to every server.
    if (is_open || is_of_browser(headers)) && !is_ours(host, &authority.host_names()) {
        return Err(Refusal::Misdirected(host.chars().take(SHOWN_CHARS_MAX).collect()));
    }
    Ok(())
}

/// Methods that change nothing (RFC 9110 section 9.2.1).
fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}

/// Browsers mark requests so, above all those of pages.
fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"))
}

/// Whether an origin is the one of the host that is asked. Through a WebSocket another port of the same host does:
/// tools serve their page from one, and SDKs name one that is not the broker's. A sandbox and a file have the origin
/// `null`.
fn is_of(origin: &str, host: &str, any_port: bool) -> bool {
    let Some((scheme, origin)) = origin.split_once("://") else { return false };
    let usual = if matches!(scheme, "https" | "wss") { 443 } else { 80 };
    match (split_authority(origin), split_authority(host)) {
        (Some((theirs, port)), Some((ours, our_port))) => {
            let same_port = port.unwrap_or(usual) == our_port.unwrap_or(usual);
            theirs.eq_ignore_ascii_case(ours) && (any_port || same_port)
        }
        _ => false,
    }
}

/// Whether a host name cannot belong to a foreign site. An address cannot, and neither can a name with one label or
/// below the endings that are reserved for local use, because such names cannot be registered on the Internet: they
/// come from this machine, its containers or its network. The operator has to name all others, by `hostnames` or in a
/// certificate.
fn is_ours(host: &str, names: &HostNames) -> bool {
    let Some((name, _)) = split_authority(host) else { return false };
    if name.parse::<IpAddr>().is_ok() || names.contains(name) {
        return true;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.rsplit_once('.') {
        None => true,
        Some((before, last)) => {
            LOCAL_ENDINGS.iter().any(|ending| last.eq_ignore_ascii_case(ending))
                || last.eq_ignore_ascii_case("arpa") && before.to_ascii_lowercase().ends_with(".home")
        }
    }
}

/// Endings that are in no public name server: RFC 6761 section 6, RFC 6762 section 3, ICANN's resolution on `internal`,
/// and that of Kubernetes' services.
const LOCAL_ENDINGS: [&str; 5] = ["localhost", "local", "internal", "test", "svc"];
/// Characters of a client's text in a refusal.
const SHOWN_CHARS_MAX: usize = 256;

#[cfg(test)]
mod tests;
