//! HTTP connections, on any port.
//!
//! Invariant: the number and size of headers, the size of a body, and the time for each and for reading an answer are bounded; a path
//! that no route knows changes nothing.

use std::{convert::Infallible, io, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use broker_auth::PeerFacts;
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
    accept,
    shared::{Peer, Shared},
    shutdown::{Shutdown, ordered},
    websocket::{self, ByteStream},
    write_timeout::WriteTimeout,
};

mod access;
mod admin;
mod answer;
mod attempt;
mod connections;
mod context;
mod core_client;
mod faults;
mod foreign;
mod framing;
mod health;
mod limits;
mod metrics;
mod namespaces;
mod pieces;
mod probe;
mod routes;
mod scrape_queue;
mod scrape_throttle;
mod strict;
mod testing;
mod turns;
mod upgrade;

use answer::Refusal;
use context::RequestContext;
use strict::Strict;

pub(crate) use probe::LastProbe;
pub(crate) use scrape_queue::Scrapes;
pub(crate) use scrape_throttle::ScrapeThrottle;

/// Headers of one request.
const HEADERS_MAX: usize = 64;
/// Bytes of the request line and all headers of one request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Time for last answers when the broker stops.
pub(crate) const LINGER_TIME: Duration = Duration::from_secs(1);

/// Serves the requests of one connection to its end, or until the broker stops; one request, if it is about to end.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, peer: Peer) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Peer { facts, address: from, over_limit, host: server_name } = peer;
    let context = RequestContext {
        namespace: shared.namespaces.of_default(),
        shared: Arc::clone(&shared),
        peer: Arc::new(facts),
        from,
        over_limit,
        server_name,
        upgrade: Arc::default(),
        upgrade_host: Arc::default(),
    };
    let visiting = context.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let context = visiting.clone();
        turns::after_others(async move { Ok::<_, Infallible>(answered(context, request).await) })
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

/// Answers one request. One that may change something is gone through to its end though its client disconnects: the change may be on its way by
/// then, and its names are given to nobody else and its line is written in the audit log once it is known what became of it.
async fn answered(context: RequestContext, request: Request<Incoming>) -> answer::HttpResponse {
    if matches!(*request.method(), Method::GET | Method::HEAD | Method::CONNECT) {
        return answer(&context, request).await;
    }
    let exchange = tokio::spawn(async move { answer(&context, request).await });
    match exchange.await {
        Ok(answer) => answer,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Refusal::Stopping.answer(),
        },
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
        host: context.upgrade_host(),
    };
    accept::drive(stream, &context.shared, peer, true).await
}
