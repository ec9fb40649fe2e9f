//! HTTP responses and refusals.
//!
//! Invariant: each refusal has one status, and a JSON body that says why.

use broker_auth::RefusedLogin;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE},
};
use serde_json::json;

use super::{pieces::Pieces, probe::HealthProblem};
use crate::start_error::NAMES_UNKNOWN;

/// Bytes of one body.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;

/// An answer, built whole.
pub(super) type HttpResponse = Response<Pieces>;

/// Reason of a refused request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    Bad(String),
    /// No log-in, or a wrong one.
    #[error("{0}")]
    Unauthorized(String, Unproven, RefusedLogin),
    /// A known client without the right.
    #[error("{why}")]
    Forbidden {
        /// Name of the client; empty if unknown.
        who: Box<str>,
        why: String,
    },
    /// A page of another site asks for a change.
    #[error("a page of `{0}` may not change anything here")]
    ForeignPage(String),
    /// The request is for another host.
    #[error("`{0}` is no name of this broker: where it is, `hostnames` in the configuration has to have it")]
    Misdirected(String),
    /// The request is for a host that leads to no namespace.
    #[error("no namespace is reached by `{0}`")]
    NoNamespace(Box<str>),
    /// The resource is as it must be for another answer.
    #[error("{0}")]
    Conflict(String),
    /// A condition of the request does not hold.
    #[error("{0}")]
    Precondition(String),
    /// There is no room.
    #[error("{0}")]
    Full(String),
    /// There is nothing of that name.
    #[error("there is nothing at `{0}`")]
    NotFound(String),
    /// Not this way.
    #[error("method is not one of `{allow}`")]
    Method { allow: &'static str },
    /// The path is for another protocol.
    #[error("expected an upgrade to WebSocket, version 13")]
    UpgradeRequired,
    /// The body has more than [`BODY_BYTES_MAX`].
    #[error("the body is larger than {BODY_BYTES_MAX} bytes")]
    TooLarge,
    /// The body did not come in time.
    #[error("the body did not come in time")]
    TooSlow,
    /// Answers that their clients do not read have all the memory that they may have.
    #[error("earlier answers are not read yet: try again")]
    TooManyUnread,
    /// Names are not given while a shard may have them which recovers.
    #[error("{NAMES_UNKNOWN}")]
    NamesUnknown,
    #[error("the broker is stopping")]
    Stopping,
    /// It cannot be used.
    #[error("{0}")]
    HealthProblem(HealthProblem),
}

/// Error of a log-in, with the sub-code of the service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unproven {
    /// Anything else.
    Generic = 40100,
    /// Passwords are not taken on this connection.
    NoTransportSecurity = 40101,
    /// There is none.
    Missing = 40102,
    /// Signed with an unknown key.
    Signature = 40103,
    /// For another place.
    Audience = 40104,
    /// It cannot be read.
    Malformed = 40105,
    /// Its time is over.
    Expired = 40106,
    /// It does not say for which place it is.
    NoAudience = 40107,
    /// It does not say until when it is good.
    NoExpiry = 40108,
    /// It does not say whose it is.
    NoIssuer = 40109,
    /// It is not signed.
    NoSignature = 40110,
}

impl Refusal {
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized(..) => StatusCode::UNAUTHORIZED,
            Self::Forbidden { .. } | Self::ForeignPage(_) => StatusCode::FORBIDDEN,
            Self::Misdirected(_) => StatusCode::MISDIRECTED_REQUEST,
            Self::NotFound(_) | Self::NoNamespace(_) => StatusCode::NOT_FOUND,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::Precondition(_) => StatusCode::PRECONDITION_FAILED,
            Self::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NamesUnknown | Self::TooManyUnread | Self::Stopping | Self::HealthProblem(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The client lacks the right.
    pub(super) fn forbidden(why: impl Into<String>) -> Self {
        Self::Forbidden { who: Box::default(), why: why.into() }
    }

    /// Name of the refused client, where it is known.
    pub(super) fn who(&self) -> Option<&str> {
        if let Self::Forbidden { who, .. } = self { Some(who) } else { None }
    }

    /// The log-in that was refused, if that is what it is.
    pub(super) const fn login(&self) -> Option<&RefusedLogin> {
        if let Self::Unauthorized(_, _, login) = self { Some(login) } else { None }
    }

    /// Whether the asker was not let in: an attempt that the audit log tells.
    pub(super) const fn is_of_rights(&self) -> bool {
        matches!(self, Self::Unauthorized(..) | Self::Forbidden { .. })
    }

    /// The refusal as an answer.
    pub(super) fn answer(&self) -> HttpResponse {
        let mut answer = json_answer(self.status(), &json!({ "error": self.to_string() }));
        match self {
            Self::Unauthorized(..) => {
                // The one scheme of ours that a browser or curl can act on.
                let challenge = HeaderValue::from_static("Basic realm=\"ferrybus\"");
                answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            Self::Method { allow } => {
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
            }
            Self::UpgradeRequired => {
                answer.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
                answer.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            }
            _ => {}
        }
        answer
    }
}

/// An answer in JSON.
pub(super) fn json_answer(status: StatusCode, body: &serde_json::Value) -> HttpResponse {
    let mut answer = Response::new(Pieces::from(body.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests;
