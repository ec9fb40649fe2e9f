//! Authentication and authorization of HTTP requests.
//!
//! Invariant: a request is judged by the same authority as a link, and nothing is done before it was. Each log-in that is judged counts as
//! one over AMQP does, in the namespace that the request is for.

use amqp_gateway::{LOGIN_WORK, work_of_token};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{
    Authority, JwtError, LoginRefusal, PeerFacts, RefusedLogin, Right, SasError, SaslError, Scope, TokenError,
};
use broker_core::Work;
use hyper::{HeaderMap, header::AUTHORIZATION};

use super::{
    answer::{Refusal, Unproven},
    context::RequestContext,
};

/// Checks that the request of `context` with these headers may do `right` at `scope`, by the judgement of `authority`. Says who asks.
pub(super) fn claim(
    context: &RequestContext,
    authority: &Authority,
    headers: &HeaderMap,
    wanted: (Right, &Scope),
) -> Result<Box<str>, Refusal> {
    let seconds = context.shared.clock.now().wall.as_millis() / 1000;
    let mut work = Work(0);
    let claimed = judge(authority, &context.peer, headers, wanted, seconds, &mut work);
    context.namespace.add_gateway_work(work);
    claimed
}

/// Checks that a request with these headers may do `right` at `scope`. The log-in is a shared access signature, a
/// bearer token, or the name and text of a key or user (Basic); without any, the client certificate of the connection if it is
/// configured, else what anonymous clients may do. Says who asks, and adds the work that it was.
fn judge(
    authority: &Authority,
    peer: &PeerFacts,
    headers: &HeaderMap,
    (right, scope): (Right, &Scope),
    unix_seconds: u64,
    work: &mut Work,
) -> Result<Box<str>, Refusal> {
    let unreadable = || {
        let login = RefusedLogin::unnamed(LoginRefusal::Malformed);
        Refusal::Unauthorized("the `Authorization` header cannot be read".into(), Unproven::Malformed, login)
    };
    let login = match headers.get(AUTHORIZATION) {
        Some(value) => Some(value.to_str().map_err(|_| unreadable())?.trim()),
        None => None,
    };
    let (who, allowed) = match login.map(|login| (login, login.split_once(' ').unwrap_or((login, "")))) {
        None => {
            *work += LOGIN_WORK;
            match authority.sasl(peer, "EXTERNAL", None, unix_seconds) {
                Ok(owner) if owner.allows(scope, right) => return Ok(owner.name().into()),
                Ok(owner) => return Err(forbidden(owner.name().into(), right)),
                Err(_) => by_log_in(authority, peer, ("ANONYMOUS", None), (right, scope), unix_seconds)?,
            }
        }
        Some((_, (scheme, rest))) if scheme.eq_ignore_ascii_case("basic") => {
            let text = STANDARD.decode(rest.trim()).map_err(|_| unreadable())?;
            *work += LOGIN_WORK;
            let mut response = vec![0];
            response.extend_from_slice(&text);
            // The name ends at the first colon, and the password may have some (RFC 7617 section 2).
            if let Some(colon) = response.iter_mut().find(|byte| **byte == b':') {
                *colon = 0;
            }
            by_log_in(authority, peer, ("PLAIN", Some(&response)), (right, scope), unix_seconds)?
        }
        Some((_, (scheme, token))) if scheme.eq_ignore_ascii_case("bearer") => {
            by_token(authority, token.trim(), (right, scope), unix_seconds, work)?
        }
        Some((token, _)) => by_token(authority, token, (right, scope), unix_seconds, work)?,
    };
    match (allowed, login) {
        (true, _) => Ok(who),
        (false, Some(_)) => Err(forbidden(who, right)),
        (false, None) => {
            let login = RefusedLogin::unnamed(LoginRefusal::NoCredentials);
            Err(Refusal::Unauthorized(
                "the `Authorization` header is missing".into(),
                Unproven::Missing,
                login,
            ))
        }
    }
}

fn by_log_in(
    authority: &Authority,
    peer: &PeerFacts,
    (mechanism, response): (&str, Option<&[u8]>),
    (right, scope): (Right, &Scope),
    unix_seconds: u64,
) -> Result<(Box<str>, bool), Refusal> {
    let identity = authority.sasl(peer, mechanism, response, unix_seconds);
    let identity = identity.map_err(|error| {
        let code = match error {
            SaslError::NotOffered => Unproven::NoTransportSecurity,
            SaslError::Malformed | SaslError::MissingResponse => Unproven::Malformed,
            SaslError::WrongCredentials | SaslError::UnknownCertificate | SaslError::Token(_) => {
                Unproven::Generic
            }
        };
        let login = RefusedLogin::of_sasl(authority, peer, error, (mechanism, response));
        Refusal::Unauthorized(error.to_string(), code, login)
    })?;
    Ok((identity.name().into(), identity.allows(scope, right)))
}

/// The token has to be good for the place that the request is about. As over AMQP, its host has to lead to
/// the namespace of the authority (decision 46).
fn by_token(
    authority: &Authority,
    token: &str,
    (right, scope): (Right, &Scope),
    unix_seconds: u64,
    work: &mut Work,
) -> Result<(Box<str>, bool), Refusal> {
    let audience = format!("/{}", scope.as_str());
    let grant = authority.verify_token(token, "", &audience, unix_seconds);
    *work += work_of_token(token, grant.as_ref().err());
    let grant = grant.map_err(|error| match error {
        // The token is authentic, but grants nothing.
        TokenError::NoRights | TokenError::Jwt(JwtError::NoRights) => forbidden(Box::default(), right),
        error => {
            let login = RefusedLogin::of_token(&error, token);
            Refusal::Unauthorized(error.to_string(), unproven(&error), login)
        }
    })?;
    let allowed = grant.permits(scope, right);
    Ok((grant.key, allowed))
}

fn forbidden(who: Box<str>, right: Right) -> Refusal {
    Refusal::Forbidden { who, why: format!("'{right}' claim(s) are required to perform this operation") }
}

/// Error code of a refused token.
fn unproven(error: &TokenError) -> Unproven {
    match error {
        TokenError::Malformed(SasError::Missing("sr")) => Unproven::NoAudience,
        TokenError::Malformed(SasError::Missing("se")) | TokenError::Jwt(JwtError::Time("exp")) => {
            Unproven::NoExpiry
        }
        TokenError::Malformed(SasError::Missing("skn")) => Unproven::NoIssuer,
        TokenError::Malformed(SasError::Missing("sig")) | TokenError::Jwt(JwtError::Algorithm) => {
            Unproven::NoSignature
        }
        TokenError::UnknownKey
        | TokenError::WrongSignature
        | TokenError::Jwt(JwtError::UnknownKey { .. } | JwtError::WrongSignature) => Unproven::Signature,
        TokenError::Expired { .. } | TokenError::Jwt(JwtError::Expired { .. } | JwtError::NotYet { .. }) => {
            Unproven::Expired
        }
        TokenError::WrongAudience
        | TokenError::NoHost
        | TokenError::ForeignHost(_)
        | TokenError::AudienceTooLong(_)
        | TokenError::Jwt(JwtError::WrongAudience) => Unproven::Audience,
        TokenError::TooLong(_)
        | TokenError::UnknownKind
        | TokenError::Malformed(_)
        | TokenError::Jwt(JwtError::Malformed(_) | JwtError::Extension | JwtError::Time(_)) => {
            Unproven::Malformed
        }
        TokenError::JwtNotConfigured
        | TokenError::NoRights
        | TokenError::Jwt(JwtError::UnknownIssuer | JwtError::NoRights) => Unproven::Generic,
    }
}

#[cfg(test)]
mod tests;
