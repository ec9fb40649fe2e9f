//! Requests to the broker's HTTP side, on the port that the connection string names: it speaks both.
//!
//! Invariant: each request ends within [`RESPONSE_TIMEOUT`]; an answer that is not a success is told in the broker's own words.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Error};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_admin::client::read_refusal;
use broker_auth::{Secret, sign_token};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    client::conn::http1::{SendRequest, handshake},
    header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HOST, IF_MATCH, IF_NONE_MATCH},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    BrokerEndpoint,
    connect::{RESPONSE_TIMEOUT, Stream},
    fault::too_slow,
};
use crate::{connection_string::Login, failure::Failure};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Seconds that a token lives: it is used once.
const TOKEN_SECONDS: u64 = 60;

/// A request.
#[derive(Debug)]
pub(super) struct HttpRequest<'a> {
    method: Method,
    path: &'a str,
    body: Option<(&'static str, String)>,
    if_match: Option<String>,
    if_none_match: bool,
}

impl<'a> HttpRequest<'a> {
    pub(super) const fn new(method: Method, path: &'a str) -> Self {
        Self { method, path, body: None, if_match: None, if_none_match: false }
    }

    /// Only if there is nothing of that name yet.
    pub(super) fn if_new(self) -> Self {
        Self { if_none_match: true, ..self }
    }

    /// With a body of this type.
    pub(super) fn with_body(self, content_type: &'static str, body: String) -> Self {
        Self { body: Some((content_type, body)), ..self }
    }

    /// For this state of what it is about; `None`: it is about nothing that exists.
    pub(super) fn of_state(self, if_match: Option<&str>) -> Self {
        Self { if_match: if_match.map(str::to_owned), ..self }
    }
}

/// Response.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) etag: Option<String>,
    pub(super) body: Bytes,
}

impl Reply {
    /// Error of the response, with the broker's text and code.
    pub(super) fn error_text(&self) -> String {
        let code = self.status.as_u16();
        if let Some(refused) = read_refusal(&self.body) {
            let text = refused.text.trim_end_matches('.');
            return match refused.sub_code {
                Some(sub_code) => format!("{text} ({code}, SubCode {sub_code})"),
                None => format!("{text} ({code})"),
            };
        }
        let json: Option<Value> = serde_json::from_slice(&self.body).ok();
        match json.as_ref().and_then(|said| said.get("error")).and_then(Value::as_str) {
            Some(reason) => format!("{reason} ({code})"),
            None => self.status.to_string(),
        }
    }

    /// The failure of doing `what`, with a hint where the cause is plain.
    pub(super) fn failure(&self, what: &str) -> Failure {
        if self.status == StatusCode::PRECONDITION_FAILED {
            return changed_meanwhile(what);
        }
        let failure = Failure::new(format_args!("{what}: {}", self.error_text()));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                failure.hint(
                    "check the key in `--connection-string` or FERRYBUS_CONNECTION_STRING, or the administrator in \
                     `--admin-file` or FERRYBUS_ADMIN",
                )
            }
            StatusCode::FORBIDDEN if self.error_text().contains("claim") => {
                failure.hint("the key needs the right to manage")
            }
            _ => failure,
        }
    }
}

/// The failure of doing `what` to something that another has changed since it was looked at.
pub(super) fn changed_meanwhile(what: &str) -> Failure {
    Failure::new(format_args!("{what}: somebody else has changed it meanwhile, so nothing was done to it"))
        .hint("run the command again, it begins with what there is now")
}

/// Requests one after the other, over a connection that is kept.
#[derive(Debug)]
pub(super) struct Http<'t> {
    target: &'t BrokerEndpoint,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl BrokerEndpoint {
    /// Makes one request and reads its answer, which is JSON.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let mut ask = HttpRequest::new(method, path);
        if let Some(body) = body {
            ask = ask.with_body("application/json", body.to_string());
        }
        let reply = self.http().send(ask).await?;
        let what = format!("cannot ask {}", self.place());
        if !reply.status.is_success() {
            return Err(reply.failure(&what));
        }
        serde_json::from_slice(&reply.body)
            .map_err(|_| Failure::new(format_args!("{what}: the answer is not JSON")))
    }

    /// For several requests.
    pub(super) const fn http(&self) -> Http<'_> {
        Http { target: self, sender: None }
    }
}

impl Http<'_> {
    /// Makes a request and waits for its answer.
    pub(super) async fn send(&mut self, ask: HttpRequest<'_>) -> Result<Reply, Failure> {
        let what = format!("cannot ask {}", self.target.place());
        let request = self.request(ask)?;
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            self.sender = Some(self.connect(&what).await?);
        }
        let Some(sender) = &mut self.sender else {
            return Err(Failure::new(format_args!("{what}: the connection is gone")));
        };
        let failed = |error: Error| Failure::of(error.context(what.clone()));
        let answered = async {
            sender.ready().await.map_err(|error| failed(error.into()))?;
            let answer = sender.send_request(request).await.map_err(|error| failed(error.into()))?;
            let status = answer.status();
            let etag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| failed(Error::from_boxed(error)))?.to_bytes();
            Ok(Reply { status, etag, body })
        };
        timeout(RESPONSE_TIMEOUT, answered).await.map_err(|_| too_slow(&what))?
    }

    fn request(&self, ask: HttpRequest<'_>) -> Result<Request<Full<Bytes>>, Failure> {
        let host = self.target.http_host();
        let login = authorization(self.target.login(), &format!("http://{host}/"));
        let mut request = Request::builder().method(ask.method).uri(ask.path).header(HOST, host);
        if let Some(login) = login {
            request = request.header(AUTHORIZATION, login);
        }
        if let Some(tag) = ask.if_match {
            request = request.header(IF_MATCH, tag);
        }
        if ask.if_none_match {
            request = request.header(IF_NONE_MATCH, "*");
        }
        let body = match ask.body {
            Some((content_type, body)) => {
                request = request.header(CONTENT_TYPE, content_type);
                Full::new(Bytes::from(body))
            }
            None => Full::default(),
        };
        request
            .body(body)
            .map_err(|error| Failure::misuse(format_args!("the request cannot be made: {error}")))
    }

    async fn connect(&self, what: &str) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let tcp = self.target.tcp(what).await?;
        let opened = async {
            if self.target.tls_wanted() {
                open(self.target.tls(tcp, what).await?, what).await
            } else {
                open(tcp, what).await
            }
        };
        timeout(RESPONSE_TIMEOUT, opened).await.map_err(|_| too_slow(what))?
    }
}

/// The header `Authorization` for requests at this place.
fn authorization(login: &Login, resource: &str) -> Option<String> {
    match login {
        Login::Anonymous => None,
        Login::Token(token) if token.to_ascii_lowercase().starts_with("sharedaccesssignature ") => {
            Some(token.clone())
        }
        Login::Token(token) => Some(format!("Bearer {token}")),
        // RFC 7617.
        Login::Password { name, password } => {
            Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
        }
        Login::Key { name, key } => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Some(sign_token(resource, name, &Secret::new(key.as_str()), now + TOKEN_SECONDS))
        }
    }
}

async fn open<S: Stream>(stream: S, what: &str) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let opened = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = opened.with_context(|| what.to_owned()).map_err(Failure::of)?;
    // It has to run for answers to come. How it ends matters to nobody: the request that is lost says so.
    drop(tokio::spawn(connection));
    Ok(sender)
}
