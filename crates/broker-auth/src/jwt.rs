//! Tokens of identity providers: signed JSON (RFC 7515 compact form, RFC 7519).
//!
//! Invariant: nothing that a token says is believed before a configured provider's key has verified its signature, but
//! which provider and which key that would be.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use crate::{
    Grant, Issuer, Scope,
    jwks::{Algorithm, Verification},
    principal::Basis,
};

/// Reason why a token of an identity provider grants nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum JwtError {
    /// It does not have the form of one.
    #[error("MalformedToken: {0} of the JWT cannot be read")]
    Malformed(&'static str),
    /// Signed in a way that is not taken: not at all, or with a shared secret.
    #[error("MalformedToken: the JWT is not signed with RS256 or ES256")]
    Algorithm,
    /// It demands something that we do not know (`crit`).
    #[error("MalformedToken: the JWT demands an extension that is not known")]
    Extension,
    /// No configured provider has issued it.
    #[error("InvalidIssuer: the JWT is of a provider that is not configured")]
    UnknownIssuer,
    /// The provider has no key of that name; it may have got a new one.
    #[error("InvalidSignature: the JWT is signed with a key that its provider does not publish")]
    UnknownKey {
        /// The provider's keys can be had anew.
        refreshable: bool,
    },
    /// Signed with another key, or changed.
    #[error("InvalidSignature: The token has an invalid signature.")]
    WrongSignature,
    /// A time claim is missing or is no number.
    #[error("MalformedToken: claim `{0}` of the JWT is missing or no number of seconds")]
    Time(&'static str),
    #[error(
        "ExpiredToken: The token is expired. Expiration time: {expired_at} (Unix seconds), now it is {now}"
    )]
    Expired {
        /// Seconds since 1970.
        expired_at: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// Its time has not come.
    #[error("ExpiredToken: the token is not valid before {from} (Unix seconds), now it is {now}")]
    NotYet {
        /// Seconds since 1970.
        from: u64,
        /// Seconds since 1970.
        now: u64,
    },
    /// Issued for another audience.
    #[error("InvalidAudience: the JWT is for another audience")]
    WrongAudience,
    /// No configured grant fits its claims at this place.
    #[error("InvalidClaims: no claim of the JWT grants anything at this place")]
    NoRights,
}

/// A token taken apart. Only its signature says whether any of it is true.
#[derive(Debug)]
struct Token<'t> {
    signed: &'t str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Map<String, Value>,
}

/// Judges a token for the place `scope`, or for all places together, at `now`, in seconds since 1970.
pub(crate) fn verify(
    issuers: &[Issuer],
    token: &str,
    scope: Option<&Scope>,
    now: u64,
) -> Result<Grant, JwtError> {
    let token = Token::parse(token)?;
    let says = token.claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    // One provider may be configured several times, for its audiences.
    let mut issuers = issuers.iter().filter(|issuer| issuer.config().issuer == says).peekable();
    issuers.peek().ok_or(JwtError::UnknownIssuer)?;
    let mut refused = JwtError::UnknownIssuer;
    for issuer in issuers {
        match token.judge(issuer, scope, now) {
            Ok(grant) => return Ok(grant),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The issuer and subject that a JWT says it is of.
pub(crate) fn claimed_subject(token: &str) -> Option<String> {
    let claims = object(token.trim().split('.').nth(1)?)?;
    let text = |name| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{} {}", text("iss"), text("sub")).trim().to_owned())
}

impl<'t> Token<'t> {
    fn parse(token: &'t str) -> Result<Self, JwtError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(JwtError::Malformed("the form"))?;
        let (header, claims) = signed.split_once('.').ok_or(JwtError::Malformed("the form"))?;
        let header = object(header).ok_or(JwtError::Malformed("the header"))?;
        let name = header.get("alg").and_then(Value::as_str).unwrap_or_default();
        let algorithm = Algorithm::named(name).ok_or(JwtError::Algorithm)?;
        if header.contains_key("crit") {
            return Err(JwtError::Extension);
        }
        Ok(Self {
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| JwtError::Malformed("the signature"))?,
            algorithm,
            key_id: header.get("kid").and_then(Value::as_str).map(Into::into),
            claims: object(claims).ok_or(JwtError::Malformed("the text"))?,
        })
    }

    fn judge(&self, issuer: &Issuer, scope: Option<&Scope>, now: u64) -> Result<Grant, JwtError> {
        let (id, signed) = (self.key_id.as_deref(), self.signed.as_bytes());
        match issuer.keys().verify(id, self.algorithm, signed, &self.signature) {
            Verification::Good => {}
            Verification::Forged => return Err(JwtError::WrongSignature),
            Verification::NoKey => {
                return Err(JwtError::UnknownKey { refreshable: issuer.config().refreshable });
            }
        }
        let expires_at = self.check_times(issuer.config().skew_seconds, now)?;
        if !self.is_for(&issuer.config().audiences) {
            return Err(JwtError::WrongAudience);
        }
        let bases = issuer.bases(&self.claims, scope);
        if bases.iter().all(Basis::is_void) {
            return Err(JwtError::NoRights);
        }
        let whose = self.claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        let key = format!("{} {whose}", issuer.config().issuer).into();
        let scope = scope.cloned().unwrap_or_else(Scope::namespace);
        Ok(Grant { scope, expires_at, key, bases })
    }

    /// From when on the token is void, by our clock.
    fn check_times(&self, skew: u64, now: u64) -> Result<u64, JwtError> {
        let said = self.seconds("exp")?.ok_or(JwtError::Time("exp"))?;
        let expires_at = said.saturating_add(skew);
        if now >= expires_at {
            return Err(JwtError::Expired { expired_at: said, now });
        }
        match self.seconds("nbf")? {
            Some(from) if now.saturating_add(skew) < from => Err(JwtError::NotYet { from, now }),
            _ => Ok(expires_at),
        }
    }

    /// A claim in seconds since 1970, which may have a fraction (RFC 7519 section 2).
    fn seconds(&self, name: &'static str) -> Result<Option<u64>, JwtError> {
        let Some(claim) = self.claims.get(name) else { return Ok(None) };
        if let Some(seconds) = claim.as_u64() {
            return Ok(Some(seconds));
        }
        match claim.as_f64() {
            // 2^53: up to there every second has its number.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to lie within"
            )]
            Some(seconds) if (0.0..9_007_199_254_740_992.0).contains(&seconds) => Ok(Some(seconds as u64)),
            _ => Err(JwtError::Time(name)),
        }
    }

    /// `aud` is one text or a list of them. A slash at the end does not count: Azure's libraries ask with and without.
    fn is_for(&self, audiences: &[String]) -> bool {
        let ours = |said: &str| {
            audiences.iter().any(|audience| audience.trim_end_matches('/') == said.trim_end_matches('/'))
        };
        match self.claims.get("aud") {
            Some(Value::String(said)) => ours(said),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).any(ours),
            _ => false,
        }
    }
}

fn object(text: &str) -> Option<Map<String, Value>> {
    let text = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests;
