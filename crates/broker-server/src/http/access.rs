//! Who asks over HTTP, and may they?
//!
//! Invariant: a request is judged by the same authority as a link, and nothing is done before it was.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{Authority, PeerFacts, Right, Scope};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HOST},
};

use super::answer::Refusal;

/// Checks that the request with these headers may do `right` at `scope`. The log-in is a shared access signature, a
/// bearer token, or the name and text of a key or user (Basic); without any, what anonymous clients may do. Says who asks.
pub(super) fn claim(
    authority: &Authority,
    peer: &PeerFacts,
    headers: &HeaderMap,
    (right, scope): (Right, &Scope),
    unix_seconds: u64,
) -> Result<Box<str>, Refusal> {
    let unreadable = || Refusal::Unauthorized("the `Authorization` header cannot be read".into());
    let login = match headers.get(AUTHORIZATION) {
        Some(value) => Some(value.to_str().map_err(|_| unreadable())?.trim()),
        None => None,
    };
    let (who, allowed) = match login.map(|login| (login, login.split_once(' ').unwrap_or((login, "")))) {
        None => by_log_in(authority, peer, "ANONYMOUS", None, (right, scope))?,
        Some((_, (scheme, rest))) if scheme.eq_ignore_ascii_case("basic") => {
            let text = STANDARD.decode(rest.trim()).map_err(|_| unreadable())?;
            let mut response = vec![0];
            response.extend(text.iter().map(|byte| if *byte == b':' { 0 } else { *byte }));
            by_log_in(authority, peer, "PLAIN", Some(&response), (right, scope))?
        }
        Some((_, (scheme, token))) if scheme.eq_ignore_ascii_case("bearer") => {
            by_token(authority, token.trim(), headers, (right, scope), unix_seconds)?
        }
        Some((token, _)) => by_token(authority, token, headers, (right, scope), unix_seconds)?,
    };
    match (allowed, login) {
        (true, _) => Ok(who),
        (false, Some(_)) => {
            let why = format!("'{right}' claim(s) are required to perform this operation");
            Err(Refusal::Forbidden { who, why })
        }
        (false, None) => Err(Refusal::Unauthorized("the `Authorization` header is missing".into())),
    }
}

fn by_log_in(
    authority: &Authority,
    peer: &PeerFacts,
    mechanism: &str,
    response: Option<&[u8]>,
    (right, scope): (Right, &Scope),
) -> Result<(Box<str>, bool), Refusal> {
    let identity = authority.sasl(peer, mechanism, response);
    let identity = identity.map_err(|error| Refusal::Unauthorized(error.to_string()))?;
    Ok((identity.name().into(), identity.allows(scope, right)))
}

/// The token has to be good for the place that the request is about, at the host that it was sent to.
fn by_token(
    authority: &Authority,
    token: &str,
    headers: &HeaderMap,
    (right, scope): (Right, &Scope),
    unix_seconds: u64,
) -> Result<(Box<str>, bool), Refusal> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let audience = format!("http://{host}/{}", scope.as_str());
    let grant = authority.verify_token(token, "", &audience, unix_seconds);
    let grant = grant.map_err(|error| Refusal::Unauthorized(error.to_string()))?;
    let allowed = grant.permits(scope, right);
    Ok((grant.key, allowed))
}

#[cfg(test)]
mod tests;
