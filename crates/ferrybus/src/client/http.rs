//! Requests to the broker's HTTP side, on the port that the connection string names: it speaks both.
//!
//! Invariant: an answer that is not a success is a failure with the broker's own words; each request ends within
//! [`PATIENCE`].

use std::time::{SystemTime, UNIX_EPOCH};

use broker_auth::{Secret, sign_token};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Target,
    connect::{PATIENCE, Stream},
    fault::too_slow,
};
use crate::{connection_string::Login, failure::Failure};

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Seconds that a token lives: it is used once.
const TOKEN_SECONDS: u64 = 60;

impl Target {
    /// Makes one request and reads its answer, which is JSON.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let what = format!("cannot ask {}", self.place());
        let request = self.request(method, path, body)?;
        let tcp = self.tcp(&what).await?;
        let asked = async {
            if self.tls_wanted() {
                exchange(self.tls(tcp, &what).await?, request, &what).await
            } else {
                exchange(tcp, request, &what).await
            }
        };
        timeout(PATIENCE, asked).await.map_err(|_| too_slow(&what))?
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let place = self.place();
        let mut request = Request::builder().method(method).uri(path).header(HOST, &place);
        if let Some(login) = self.authorization(&format!("http://{place}/")) {
            request = request.header(AUTHORIZATION, login);
        }
        let body = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Full::new(Bytes::from(body.to_string()))
            }
            None => Full::default(),
        };
        request
            .body(body)
            .map_err(|error| Failure::misuse(format_args!("the request cannot be made: {error}")))
    }

    fn authorization(&self, resource: &str) -> Option<String> {
        match self.login() {
            Login::Anonymous => None,
            Login::Token(token) if token.to_ascii_lowercase().starts_with("sharedaccesssignature ") => {
                Some(token.clone())
            }
            Login::Token(token) => Some(format!("Bearer {token}")),
            Login::Key { name, key } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
                Some(sign_token(resource, name, &Secret::new(key.as_str()), now + TOKEN_SECONDS))
            }
        }
    }
}

async fn exchange<S: Stream>(stream: S, request: Request<Full<Bytes>>, what: &str) -> Result<Value, Failure> {
    let failed = |error: hyper::Error| Failure::new(format_args!("{what}: {error}"));
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answered = async move {
        let answer = sender.send_request(request).await.map_err(failed)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failure::new(format_args!("{what}: {error}")))?.to_bytes();
        Ok((status, body))
    };
    // The connection has to run for its answer to come; how it ends afterwards matters no more.
    let (answered, _ended) = tokio::join!(answered, connection);
    let (status, body) = answered?;
    let said: Option<Value> = serde_json::from_slice(&body).ok();
    if status.is_success() {
        return said.ok_or_else(|| Failure::new(format_args!("{what}: the answer is not JSON")));
    }
    let reason = said.as_ref().and_then(|said| said.get("error")).and_then(Value::as_str);
    Err(Failure::new(
        reason.map_or_else(|| format!("{what}: {status}"), |reason| format!("{what}: {reason}")),
    ))
}
