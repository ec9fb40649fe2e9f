//! Responses of the management API: ATOM entries and feeds, and error bodies with a numeric code and a sub-code.
//!
//! Invariant: every error has a body that all clients can read: no namespace, a numeric code.

use broker_core::{EntityError, RULES_PER_TOPIC, SUBSCRIPTIONS_PER_TOPIC};

use crate::xml;

/// An HTTP answer, but for what the transport adds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// `Content-Type`, where there is a body.
    pub content_type: Option<&'static str>,
    /// The body, in pieces that follow each other.
    pub body: Vec<String>,
    /// `ETag`.
    pub etag: Option<u64>,
}

const ENTRY: &str = "application/atom+xml; type=entry; charset=utf-8";
const FEED: &str = "application/atom+xml; type=feed; charset=utf-8";
const ERROR: &str = "application/xml; charset=utf-8";

/// End of the body of an error.
const END: &str = "</Detail></Error>";

impl Answer {
    /// One entity.
    pub(crate) fn entry(status: u16, body: String, etag: u64) -> Self {
        Self { status, content_type: Some(ENTRY), body: vec![body], etag: Some(etag) }
    }

    /// A list.
    pub(crate) fn feed(body: Vec<String>) -> Self {
        Self { status: 200, content_type: Some(FEED), body, etag: None }
    }

    /// Done, and nothing to show.
    pub(crate) fn empty() -> Self {
        Self { status: 200, content_type: None, body: Vec::new(), etag: None }
    }

    /// A refusal; `detail` is for the reader of the exception. It begins with `SubCode=…` where the status alone does
    /// not tell clients which error to raise.
    pub fn error(status: u16, detail: &str) -> Self {
        let mut body = format!("<Error><Code>{status}</Code><Detail>");
        xml::escape(&mut body, detail);
        body.push_str(END);
        Self { status, content_type: Some(ERROR), body: vec![body], etag: None }
    }

    /// The same; a refusal with `trail` behind its text: what a user quotes to the operator, and the operator finds in
    /// the log.
    #[must_use]
    pub fn with_trail(mut self, trail: &str) -> Self {
        if let Some(before) = self.body.last().and_then(|body| body.strip_suffix(END)) {
            let mut body = before.to_owned();
            xml::escape(&mut body, trail);
            body.push_str(END);
            self.body = vec![body];
        }
        self
    }

    /// A request that makes no sense.
    pub(crate) fn bad(reason: &str) -> Self {
        Self::error(400, &format!("SubCode=40000. Bad Request. {}", sentence(reason)))
    }

    /// There is no such entity.
    pub(crate) fn missing(name: &str) -> Self {
        Self::error(
            404,
            &format!("SubCode=40400. Not Found. The messaging entity '{name}' could not be found."),
        )
    }

    /// Something else is there than the request's `If-Match` means.
    pub(crate) fn changed(name: &str) -> Self {
        let text = format!("Precondition Failed. `If-Match` does not name the present state of '{name}'.");
        Self::error(412, &text)
    }

    /// Others change it all the time.
    pub(crate) fn busy(name: &str) -> Self {
        let text = format!("SubCode=40504. Conflict. '{name}' is being changed by others; try again.");
        Self::error(409, &text)
    }

    /// A quota is used up.
    pub(crate) fn quota(error: &EntityError, code: u32) -> Self {
        Self::error(403, &format!("SubCode={code}. {}", sentence(&error.to_string())))
    }

    /// Error for a refusal of the core.
    pub(crate) fn refused(error: &EntityError) -> Self {
        let text = sentence(&error.to_string());
        match error {
            EntityError::NotFound(name) | EntityError::RuleNotFound(name) => Self::missing(name),
            EntityError::Changed(name) => Self::changed(name),
            EntityError::ForwardTargetMissing { .. } => {
                Self::error(400, &format!("SubCode=40400. Bad Request. {text}"))
            }
            EntityError::AlreadyExists(_) | EntityError::RuleExists(_) => {
                Self::error(409, &format!("SubCode=40900. Conflict. {text}"))
            }
            EntityError::LimitReached { what, .. } => {
                let known = QUOTAS.iter().find(|(known, _)| known == what);
                Self::quota(error, known.map_or(40300, |(_, code)| *code))
            }
            EntityError::QuotaExceeded(_) => Self::quota(error, 40300),
            EntityError::Storage => Self::error(500, &format!("SubCode=50000. {text}")),
            _ => Self::error(400, &format!("SubCode=40000. Bad Request. {text}")),
        }
    }
}

/// Quotas with a code of their own. One for rules counts as one for SQL filters, but where a correlation filter met it.
const QUOTAS: [(&str, u32); 2] = [(SUBSCRIPTIONS_PER_TOPIC, 40503), (RULES_PER_TOPIC, 40501)];

/// With a capital in front and a stop behind.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    let mut text: String = first.into_iter().chain(chars).collect();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}
