//! The operator's view of a log-in that is refused: the reason, and the name that the client gives.
//!
//! Invariant: a reason is one of a fixed list, so that it can label a metric; a claimed name is never a secret, and is
//! worth nothing, for it was not proved. What the client is told does not depend on it.

use crate::{
    Authority, JwtError, PeerFacts, SaslError, TokenError,
    authority::{ANONYMOUS, EXTERNAL, PLAIN},
    jwt,
    oauth::{self, OAUTHBEARER, XOAUTH2},
    sas,
};

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum LoginRefusal {
    /// The client shows no credentials, and clients without credentials may do nothing.
    NoCredentials,
    /// No key or user has the name.
    UnknownKey,
    /// The key or user exists; the password or signature is wrong.
    WrongKey,
    /// The token's time is over.
    Expired,
    /// The token's time has not come.
    NotYetValid,
    /// The token is of an identity provider that is not configured.
    UnknownIssuer,
    /// The token is for another place, or for another broker.
    WrongAudience,
    /// The key or token is good and grants nothing at the place.
    NoRights,
    /// The credentials cannot be read.
    Malformed,
    /// The mechanism is not offered on this connection; PLAIN, for example, takes TLS from other machines.
    MechanismNotOffered,
    /// The client certificate is valid, and no `[[certificate]]` of the configuration has its subject.
    UnknownCertificate,
    /// The client certificate is of an authority that is not trusted here.
    UntrustedCertificate,
    /// The client certificate is not usable for another reason.
    BadCertificate,
    /// The connection holds as many tokens as it may.
    TooManyTokens,
}

impl LoginRefusal {
    /// The reason as logs and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoCredentials => "no_credentials",
            Self::UnknownKey => "unknown_key",
            Self::WrongKey => "wrong_key",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::UnknownIssuer => "unknown_issuer",
            Self::WrongAudience => "wrong_audience",
            Self::NoRights => "no_rights",
            Self::Malformed => "malformed",
            Self::MechanismNotOffered => "mechanism_not_offered",
            Self::UnknownCertificate => "unknown_certificate",
            Self::UntrustedCertificate => "untrusted_certificate",
            Self::BadCertificate => "bad_certificate",
            Self::TooManyTokens => "too_many_tokens",
        }
    }
}

/// A log-in that is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RefusedLogin {
    /// The reason.
    pub reason: LoginRefusal,
    /// Name of the key or user, issuer and subject, or subject of the certificate, as the client says; empty where it
    /// says none.
    pub key: Box<str>,
}

impl RefusedLogin {
    /// A log-in without a name.
    pub fn unnamed(reason: LoginRefusal) -> Self {
        Self { reason, key: Box::default() }
    }

    /// A token that [`Authority::verify_token`] has refused.
    pub fn of_token(error: &TokenError, token: &str) -> Self {
        let is_short = token.len() <= crate::TOKEN_BYTES_MAX;
        let key = if !is_short {
            None
        } else if sas::is_sas(token) {
            sas::claimed_key(token)
        } else {
            jwt::claimed_subject(token)
        };
        let reason = match (error, &key) {
            // It is no JWT either.
            (TokenError::JwtNotConfigured, None) => LoginRefusal::Malformed,
            _ => error.into(),
        };
        Self { reason, key: key.unwrap_or_default().into() }
    }

    /// A choice of a mechanism that [`Authority::sasl`] has refused. Here a wrong name is told apart from a wrong key,
    /// which the client is not told.
    pub fn of_sasl(
        authority: &Authority,
        peer: &PeerFacts,
        error: SaslError,
        (mechanism, response): (&str, Option<&[u8]>),
    ) -> Self {
        let subject;
        let key = match mechanism {
            PLAIN => response.and_then(plain_name).unwrap_or_default(),
            EXTERNAL => peer.certificate_subject.as_deref().unwrap_or_default(),
            OAUTHBEARER | XOAUTH2 => {
                let token = response.and_then(|response| oauth::token(mechanism, response));
                subject = token.and_then(jwt::claimed_subject).unwrap_or_default();
                &*subject
            }
            _ => "",
        };
        let reason = match error {
            SaslError::NotOffered => LoginRefusal::MechanismNotOffered,
            SaslError::MissingResponse if mechanism == ANONYMOUS => LoginRefusal::NoCredentials,
            SaslError::MissingResponse | SaslError::Malformed => LoginRefusal::Malformed,
            SaslError::WrongCredentials if mechanism == PLAIN && !knows(authority, key) => {
                LoginRefusal::UnknownKey
            }
            SaslError::WrongCredentials => LoginRefusal::WrongKey,
            SaslError::UnknownCertificate => LoginRefusal::UnknownCertificate,
            SaslError::Token(error) => (&TokenError::Jwt(error)).into(),
        };
        Self { reason, key: key.into() }
    }
}

/// Whether a user, or a key of the namespace or of an entity, has this name.
fn knows(authority: &Authority, name: &str) -> bool {
    authority.configuration.get().has_name(name) || authority.entity_keys.has_name(name)
}

/// The name in a response of PLAIN (RFC 4616); the password behind it is not looked at.
fn plain_name(response: &[u8]) -> Option<&str> {
    let mut parts = response.split(|byte| *byte == 0);
    let (Some(_), Some(name), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    std::str::from_utf8(name).ok()
}

impl From<&TokenError> for LoginRefusal {
    fn from(error: &TokenError) -> Self {
        match error {
            TokenError::UnknownKey | TokenError::Jwt(JwtError::UnknownKey { .. }) => Self::UnknownKey,
            TokenError::WrongSignature | TokenError::Jwt(JwtError::WrongSignature) => Self::WrongKey,
            TokenError::Expired { .. } | TokenError::Jwt(JwtError::Expired { .. }) => Self::Expired,
            TokenError::Jwt(JwtError::NotYet { .. }) => Self::NotYetValid,
            TokenError::JwtNotConfigured | TokenError::Jwt(JwtError::UnknownIssuer) => Self::UnknownIssuer,
            TokenError::WrongAudience
            | TokenError::NoHost
            | TokenError::ForeignHost(_)
            | TokenError::AudienceTooLong(_)
            | TokenError::Jwt(JwtError::WrongAudience) => Self::WrongAudience,
            TokenError::NoRights | TokenError::Jwt(JwtError::NoRights) => Self::NoRights,
            TokenError::TooLong(_)
            | TokenError::UnknownKind
            | TokenError::Malformed(_)
            | TokenError::Jwt(
                JwtError::Malformed(_) | JwtError::Algorithm | JwtError::Extension | JwtError::Time(_),
            ) => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod tests;
