//! HTTP connections, on any port.
//!
//! Invariant: the number and size of headers, the size of a body, and the time for each and for reading an answer are bounded; a path
//! that no route knows changes nothing.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use broker_auth::PeerFacts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{CONNECTION, HeaderValue, UPGRADE},
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use crate::{
    accept::{self, Peer, Shared},
    audit::LoginEntry,
    shutdown::{Shutdown, ordered, unless_stopped},
    websocket::{self, ByteStream},
    write_timeout::WriteTimeout,
};

mod access;
mod admin;
mod answer;
mod connections;
mod core_client;
mod faults;
mod foreign;
mod framing;
mod health;
mod limits;
mod metrics;
mod pieces;
mod routes;
mod scrape_throttle;
mod strict;
mod testing;
mod upgrade;

use strict::Strict;

pub(crate) use health::LastProbe;
pub(crate) use metrics::Scrapes;
pub(crate) use scrape_throttle::ScrapeThrottle;

/// Headers of one request.
const HEADERS_MAX: usize = 64;
/// Bytes of the request line and all headers of one request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Bytes of one body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
/// Time for last answers when the broker stops.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(1);

/// Context of the requests of one HTTP connection: its client, and the state of the broker.
#[derive(Clone)]
struct RequestContext {
    shared: Arc<Shared>,
    peer: Arc<PeerFacts>,
    /// Address of the client.
    from: SocketAddr,
    /// The connection is beyond the limit of them.
    over_limit: bool,
    /// Set by a request that turns the connection into a WebSocket.
    upgrade: Arc<Mutex<Option<OnUpgrade>>>,
}

/// Serves the requests of one connection to its end, or until the broker stops; one request, if it is about to end.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, peer: Peer) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Peer { facts, address: from, over_limit } = peer;
    let upgrade = Arc::default();
    let context =
        RequestContext { shared: Arc::clone(&shared), peer: Arc::new(facts), from, over_limit, upgrade };
    let visiting = context.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let context = visiting.clone();
        async move { Ok::<_, Infallible>(answer(&context, request).await) }
    });
    let mut stop = shared.stop.clone();
    let is_late = *stop.borrow_and_update() != Shutdown::No;
    let connection = http1::Builder::new()
        .keep_alive(!is_late)
        .timer(TokioTimer::new())
        .header_read_timeout(shared.handshake_time_out)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(
            TokioIo::new(Strict::new(WriteTimeout::new(stream, shared.http_write_time_out))),
            service,
        )
        .with_upgrades();
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        _ = ordered(&mut stop), if !is_late => {
            connection.as_mut().graceful_shutdown();
            // A pending request is answered that the broker stops; idle clients, and those that do not read, are dropped.
            let closed = timeout(LINGER_TIME, connection).await;
            closed.unwrap_or(Ok(()))
        }
    };
    served.map_err(io::Error::other)?;
    match context.take_upgrade() {
        Some(upgrade) => go_on_in_amqp::<S>(upgrade, &context).await,
        None => Ok(()),
    }
}

/// Answers one request. What follows one that could have gone on in another protocol is not looked at, so where it does not,
/// that is the last of its connection.
async fn answer(context: &RequestContext, request: Request<Incoming>) -> answer::HttpResponse {
    let may_go_on = request.headers().contains_key(UPGRADE) || request.method() == Method::CONNECT;
    let mut answer = routes::answer(context, request).await;
    if may_go_on && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Serves AMQP over WebSocket after an upgrade, on the stream of the HTTP connection.
async fn go_on_in_amqp<S>(upgrade: OnUpgrade, context: &RequestContext) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let upgraded = upgrade.await.map_err(io::Error::other)?;
    let parts = upgraded
        .downcast::<TokioIo<Strict<WriteTimeout<S>>>>()
        .map_err(|_| io::Error::other("not our own stream"))?;
    let frames =
        usize::try_from(context.shared.gateway.max_frame_bytes).unwrap_or(usize::MAX).saturating_mul(2);
    let message_bytes_max = websocket::MESSAGE_BYTES_MAX.max(frames);
    let stream =
        ByteStream::new(parts.io.into_inner().into_inner().into_inner(), parts.read_buf, message_bytes_max)
            .await;
    let peer = Peer {
        facts: PeerFacts::clone(&context.peer),
        address: context.from,
        over_limit: context.over_limit,
    };
    accept::drive(stream, &context.shared, peer, true).await
}

impl RequestContext {
    /// Counts and logs a refused log-in; false where the refusal is another one.
    fn note_refused_login(
        &self,
        refusal: &answer::Refusal,
        who: Option<&str>,
        entity: &str,
        subject: &str,
    ) -> bool {
        let Some(refused) = refusal.login() else { return false };
        let (from, mechanism) = (self.from, "http");
        self.shared.audit.refuse_login(LoginEntry { who, from, mechanism, refused, entity, subject });
        true
    }

    fn upgrade_to(&self, upgrade: OnUpgrade) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
    }

    fn take_upgrade(&self) -> Option<OnUpgrade> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The body of a request, within its bounds.
    async fn body(&self, body: Incoming) -> Result<Bytes, answer::Refusal> {
        let in_time = timeout(BODY_TIME.min(self.shared.handshake_time_out), whole(body));
        match unless_stopped(&self.shared.stop, in_time).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => Err(answer::Refusal::TooSlow),
            Err(_) => Err(answer::Refusal::Stopping),
        }
    }
}

/// A body in one piece: kept as it comes, each byte could be a piece that costs thirty.
async fn whole(mut body: Incoming) -> Result<Bytes, answer::Refusal> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let unreadable = |error| answer::Refusal::Bad(format!("the body cannot be read: {error}"));
        // Trailers are ignored.
        let Ok(piece) = frame.map_err(unreadable)?.into_data() else { continue };
        if all.len() + piece.len() > BODY_BYTES_MAX {
            return Err(answer::Refusal::TooLarge);
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}
