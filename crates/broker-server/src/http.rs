//! HTTP: whoever speaks it, on any port, is served here.
//!
//! Invariant: the number and size of headers, the size of a body, and the time for each are bounded; a path that no
//! route knows changes nothing.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use broker_auth::PeerFacts;
use bytes::Bytes;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::accept::Shared;

mod access;
mod answer;
mod routes;
mod testing;

/// Headers of one request.
const HEADERS_MAX: usize = 64;
/// Bytes of the request line and all headers of one request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Bytes of one body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Who asks, and what the broker offers. One for each connection, shared by its requests.
#[derive(Clone)]
struct Visitor {
    shared: Arc<Shared>,
    peer: Arc<PeerFacts>,
}

/// Serves the requests of one connection to its end, or until the broker stops.
pub(crate) async fn serve<S>(stream: S, shared: Arc<Shared>, peer: PeerFacts) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let visitor = Visitor { shared: Arc::clone(&shared), peer: Arc::new(peer) };
    let service = service_fn(move |request: Request<Incoming>| {
        let visitor = visitor.clone();
        async move { Ok::<_, Infallible>(routes::answer(&visitor, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.handshake_time_out)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut stop = shared.stop.clone();
    let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    served.map_err(io::Error::other)
}

impl Visitor {
    /// The body of a request, within its bounds.
    async fn body(&self, body: Incoming) -> Result<Bytes, answer::Refusal> {
        use http_body_util::{BodyExt, LengthLimitError, Limited};
        let collecting = Limited::new(body, BODY_BYTES_MAX).collect();
        match tokio::time::timeout(BODY_TIME.min(self.shared.handshake_time_out), collecting).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(answer::Refusal::TooLarge),
            Ok(Err(error)) => Err(answer::Refusal::Bad(format!("the body cannot be read: {error}"))),
            Err(_) => Err(answer::Refusal::TooSlow),
        }
    }
}
