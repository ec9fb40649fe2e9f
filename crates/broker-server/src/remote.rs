//! One HTTP request to a server that the operator has named: a provider of keys, the collector of spans.
//!
//! Invariant: over `https` the server proves its name to the authorities that the operator trusts; of an answer no more is read than the
//! caller allows.

use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::{Uri, header::HOST, http::request::Builder};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::tls::{self, TlsError};

/// Reason why a configured server cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Its address, or a header for it, cannot be used.
    #[error("`{url}` cannot be used: {reason}")]
    Url { url: String, reason: &'static str },
    /// The authorities to trust cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl RemoteError {
    pub(crate) fn url(url: &str, reason: &'static str) -> Self {
        Self::Url { url: url.to_owned(), reason }
    }
}

/// A server and how to reach it.
pub(crate) struct Remote {
    url: Uri,
    tls: Option<TlsConnector>,
}

impl Remote {
    /// Checks that the URL and the authorities can be used.
    pub(crate) fn new(url: &str, authorities: Option<&Path>) -> Result<Self, RemoteError> {
        let bad = |reason| RemoteError::url(url, reason);
        let parsed: Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
        let tls = match (parsed.scheme_str(), parsed.host()) {
            (Some("http"), Some(_)) => None,
            (Some("https"), Some(_)) => {
                let roots = authorities.ok_or_else(|| bad("no authorities to trust are known"))?;
                Some(TlsConnector::from(Arc::new(tls::client(roots)?)))
            }
            _ => return Err(bad("expected `http://host:port/path` or `https://host/path`")),
        };
        Ok(Self { url: parsed, tls })
    }

    pub(crate) const fn url(&self) -> &Uri {
        &self.url
    }

    /// Sends a request on a connection of its own. Gives the body of a successful answer; `None` where it has more than
    /// `answer_bytes_max` or breaks off.
    pub(crate) async fn exchange(
        &self,
        request: Builder,
        body: Bytes,
        answer_bytes_max: usize,
    ) -> io::Result<Option<Bytes>> {
        let host = self.url.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = TcpStream::connect((bare, port)).await?;
        match &self.tls {
            None => self.exchange_over(tcp, request, body, answer_bytes_max).await,
            Some(tls) => {
                let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
                let stream = tls.connect(name, tcp).await?;
                self.exchange_over(stream, request, body, answer_bytes_max).await
            }
        }
    }

    async fn exchange_over<S>(
        &self,
        stream: S,
        request: Builder,
        body: Bytes,
        answer_bytes_max: usize,
    ) -> io::Result<Option<Bytes>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let request = request.uri(path).header(HOST, authority);
        let request = request.body(Full::new(body)).map_err(io::Error::other)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let answered = async move {
            let answer = sender.send_request(request).await.map_err(io::Error::other)?;
            if !answer.status().is_success() {
                return Err(io::Error::other(format!("status {}", answer.status())));
            }
            let body = Limited::new(answer.into_body(), answer_bytes_max).collect().await;
            Ok(body.ok().map(Collected::to_bytes))
        };
        // The connection has to run for its answer to come; how it ends afterwards matters no more.
        tokio::join!(answered, connection).0
    }
}

#[cfg(test)]
mod tests;
