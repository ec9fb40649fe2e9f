//! Keeps the keys of identity providers fresh: from their URLs, now and then, and when a token names an unknown one.
//!
//! Invariant: a provider is asked at most once in [`PAUSE_MIN`], with bounded time and size; keys that are held stay as
//! they are until a whole new set is there.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use broker_auth::{Authority, KEY_SET_BYTES_MAX, KeySet};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, header::HOST};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

use crate::{
    stop::{Stop, ordered},
    tls::{self, TlsError},
};

/// Where a provider's keys come from.
#[derive(Clone, Debug)]
pub struct KeySource {
    /// Which of the authority's issuers they are for.
    pub issuer: usize,
    /// `https://…`, or `http://…` where nobody can listen.
    pub url: String,
    /// Authorities to trust for `https`, in a PEM file.
    pub authorities: Option<PathBuf>,
}

/// Time between two fetches at least, however many tokens ask.
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// Time between two fetches when nobody asks.
const PAUSE: Duration = Duration::from_secs(3600);
/// The same after one that failed.
const PAUSE_FAILED: Duration = Duration::from_secs(60);
/// Time for one fetch.
const PATIENCE: Duration = Duration::from_secs(10);

/// One provider's keys at work.
pub(crate) struct Keeper {
    authority: Arc<Authority>,
    issuer: usize,
    url: Uri,
    tls: Option<TlsConnector>,
}

impl Keeper {
    /// Checks that the URL and the authorities can be used.
    pub(crate) fn new(authority: Arc<Authority>, source: &KeySource) -> Result<Self, TlsError> {
        let bad = |reason: &str| TlsError::File { path: source.url.clone(), reason: reason.to_owned() };
        let url: Uri = source.url.parse().map_err(|_| bad("it is not a URL"))?;
        let tls = match (url.scheme_str(), url.host()) {
            (Some("http"), Some(_)) => None,
            (Some("https"), Some(_)) => {
                let roots =
                    source.authorities.as_deref().ok_or_else(|| bad("no authorities to trust are known"))?;
                Some(TlsConnector::from(Arc::new(tls::client(roots)?)))
            }
            _ => return Err(bad("expected `https://host/path`")),
        };
        Ok(Self { authority, issuer: source.issuer, url, tls })
    }

    /// Fetches for as long as the server runs. `wanted` changes with each token that names an unknown key.
    pub(crate) async fn keep(self, mut wanted: watch::Receiver<u64>, mut stop: watch::Receiver<Stop>) {
        let keep = async {
            loop {
                // What was wanted up to here is served by this fetch.
                wanted.mark_unchanged();
                let pause = if self.fetch().await { PAUSE } else { PAUSE_FAILED };
                sleep(PAUSE_MIN).await;
                // The sender lives as long as the authority, which is ours too.
                drop(timeout(pause, wanted.changed()).await);
            }
        };
        tokio::select! {
            () = keep => {}
            _ = ordered(&mut stop) => {}
        }
    }

    /// Exchanges the keys for those at the URL; false if there are none to be had.
    async fn fetch(&self) -> bool {
        let fetched = match timeout(PATIENCE, self.ask()).await {
            Ok(fetched) => fetched,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let parsed = fetched.and_then(|text| KeySet::parse(&text).map_err(io::Error::other));
        match (parsed, self.authority.issuers().get(self.issuer)) {
            (Ok(keys), Some(issuer)) => {
                info!(url = %self.url, keys = keys.len(), "keys of an identity provider");
                issuer.renew(keys);
                true
            }
            (Err(error), _) => {
                warn!(url = %self.url, %error, "the keys of an identity provider cannot be had; those known stay");
                false
            }
            (Ok(_), None) => false,
        }
    }

    async fn ask(&self) -> io::Result<Bytes> {
        let host = self.url.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.url.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let tcp = TcpStream::connect((bare, port)).await?;
        match &self.tls {
            None => self.exchange(tcp).await,
            Some(tls) => {
                let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
                self.exchange(tls.connect(name, tcp).await?).await
            }
        }
    }

    async fn exchange<S>(&self, stream: S) -> io::Result<Bytes>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let request = Request::get(path).header(HOST, authority).header("Accept", "application/json");
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let answered = async move {
            let answer = sender.send_request(request).await.map_err(io::Error::other)?;
            if !answer.status().is_success() {
                return Err(io::Error::other(format!("status {}", answer.status())));
            }
            let body = Limited::new(answer.into_body(), KEY_SET_BYTES_MAX).collect().await;
            Ok(body.map_err(io::Error::other)?.to_bytes())
        };
        // The connection has to run for its answer to come; how it ends afterwards matters no more.
        tokio::join!(answered, connection).0
    }
}
