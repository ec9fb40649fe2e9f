//! Accept loop: tells TLS from plain and HTTP from AMQP by the first byte.
//!
//! Invariant: what a peer sends before it is authenticated costs bounded time and memory.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use amqp_gateway::{Admission, Gateway, RateLimit};
use broker_auth::{PeerFacts, RefusedLogin};
use broker_core::ClientId;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::{Instrument, debug, info_span, warn};

use crate::{
    audit::LoginEntry,
    clock,
    connection::{ConnectionLog, Driver, Placer, Watchers},
    connection_limit::ConnectionSlot,
    connections::Entry,
    handshake_turns::HandshakeTurns,
    http,
    metrics::{ConnectionGauge, Transport},
    read_limit::ReadLimit,
    shared::{Peer, Shared},
    shutdown::{Shutdown, ordered, unless_stopped},
    socket::Socket,
    tls,
    wrong_protocol::{AMQP_0_9_1, Mistake},
};

/// Purpose of a port. All of them take HTTP and AMQP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PortKind {
    /// With TLS or without.
    Any,
    /// With TLS only.
    Tls,
    /// As the first, and requests of operators are answered until the server has ended.
    Watched,
}

/// Accepts until the server stops.
pub(crate) async fn accept_loop(listener: TcpListener, shared: Arc<Shared>, port_kind: PortKind) {
    let mut stop = shared.stop.clone();
    let (mut refusals, mut failures) = (RateLimit::new(LINES_PER_MINUTE), RateLimit::new(LINES_PER_MINUTE));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = ordered(&mut stop) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let taken = shared.connection_limit.take();
                if !matches!(taken, Some(ConnectionSlot::Admitted(_))) {
                    shared.metrics.refuse("connection_limit");
                    if let Admission::Logged { others } = refusals.attempt(clock::instant()) {
                        let limit = shared.connection_limit.limit();
                        warn!(%address, limit, others, "refused: too many connections");
                    }
                }
                let (place, over_limit) = match taken {
                    Some(ConnectionSlot::Admitted(place)) => (place, false),
                    Some(ConnectionSlot::OverLimit(place)) => (place, true),
                    None => continue,
                };
                let serving = Arc::clone(&shared);
                let span = info_span!("connection", peer = %address);
                shared.threads.spawn(|turns| {
                    async move {
                        if let Err(error) =
                            serve(stream, (address, over_limit), (serving, turns), port_kind).await
                        {
                            debug!(%error, "connection ended");
                        }
                        drop(place);
                    }
                    .instrument(span)
                });
            }
            Err(error) => {
                if let Admission::Logged { others } = failures.attempt(clock::instant()) {
                    warn!(%error, others, "cannot accept a connection");
                }
                // Out of file descriptors, most likely: give the others time to close.
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    if port_kind == PortKind::Watched {
        answer_to_the_end(listener, shared).await;
    }
}

/// While the server ends, answers HTTP requests with that fact and its reason. The shutdown does not wait for them.
async fn answer_to_the_end(listener: TcpListener, shared: Arc<Shared>) {
    let connection_limit = Arc::new(Semaphore::new(LATE_MAX));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&connection_limit).try_acquire_owned() else { continue };
        let serving = Arc::clone(&shared);
        shared.threads.spawn(|turns| async move {
            drop(serve_to_the_end(stream, address, (serving, turns)).await);
            drop(place);
        });
    }
}

/// Answers one request while the server ends. A client that sends none within a short time is closed.
async fn serve_to_the_end(stream: TcpStream, address: SocketAddr, server: Serving) -> io::Result<()> {
    timeout(http::LINGER_TIME, serve_late(stream, address, server)).await.unwrap_or(Ok(()))
}

/// Answers one request of HTTP; another protocol gets no answer any more.
async fn serve_late(stream: TcpStream, address: SocketAddr, (shared, turns): Serving) -> io::Result<()> {
    let stream = on_this_thread(stream)?;
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    let facts = PeerFacts { tls: false, certificate_subject: None, loopback: address.ip().is_loopback() };
    let mut peer = Peer { facts, address, over_limit: false, host: None };
    if let (Some(acceptor), [TLS_HANDSHAKE]) = (shared.tls.acceptor(), first) {
        let mut stream = Box::pin(shake_hands(&acceptor, stream, (&shared, &turns))).await?;
        let first = stream.fill_buf().await?.first().copied();
        peer.facts.tls = true;
        peer.facts.certificate_subject = subject(&stream);
        peer.host = server_name(&stream);
        return if first.is_some_and(is_http) { http::serve(stream, shared, peer).await } else { Ok(()) };
    }
    if count > 0 && is_http(first[0]) { http::serve(Socket::new(stream), shared, peer).await } else { Ok(()) }
}

/// A stream was accepted on another thread, whose runtime watches it.
fn on_this_thread(stream: TcpStream) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(stream.into_std()?)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connections that are answered at the same time while the server ends.
const LATE_MAX: usize = 64;

/// Lines of one sort that a listener writes in a minute; the next one says how many were left out.
const LINES_PER_MINUTE: u32 = 60;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

async fn serve(
    stream: TcpStream,
    (address, over_limit): (SocketAddr, bool),
    (shared, turns): Serving,
    port_kind: PortKind,
) -> io::Result<()> {
    let stream = on_this_thread(stream)?;
    let mut first = [0; 8];
    let count = match in_time(&shared, stream.peek(&mut first)).await {
        // It came just before the server began to end.
        Err(_) if port_kind == PortKind::Watched && *shared.stop.borrow() != Shutdown::No => {
            return Box::pin(serve_to_the_end(stream, address, (shared, turns))).await;
        }
        count => count?,
    };
    if count == 0 {
        return Ok(());
    }
    if first.first() == Some(&TLS_HANDSHAKE) {
        return Box::pin(serve_tls(stream, (shared, turns), (address, over_limit))).await;
    }
    if port_kind == PortKind::Tls {
        let mistake = if first == AMQP_0_9_1 { Mistake::Amqp091 } else { Mistake::PlainOnTlsPort };
        shared.wrong_protocols.note(clock::instant(), address, mistake);
        return Err(io::Error::other("the client does not speak TLS on a TLS port"));
    }
    let loopback = address.ip().is_loopback();
    let facts = PeerFacts { tls: false, certificate_subject: None, loopback };
    let peer = Peer { facts, address, over_limit, host: None };
    speak(Socket::new(stream), first.first().copied(), shared, peer).await
}

async fn serve_tls(
    stream: TcpStream,
    (shared, turns): Serving,
    (address, over_limit): (SocketAddr, bool),
) -> io::Result<()> {
    let Some(acceptor) = shared.tls.acceptor() else {
        shared.wrong_protocols.note(clock::instant(), address, Mistake::TlsOnPlainPort);
        return Err(io::Error::other("the client speaks TLS, but no certificate is configured"));
    };
    // Boxed, for it needs much more room than the connection that it makes.
    let handshake = Box::pin(shake_hands(&acceptor, stream, (&shared, &turns)));
    let shaken = in_time(&shared, handshake).await;
    drop(turns);
    let mut stream = shaken.inspect_err(|error| note_refused_handshake(&shared, address, error))?;
    let first = in_time(&shared, stream.fill_buf()).await?.first().copied();
    let certificate_subject = subject(&stream);
    let loopback = address.ip().is_loopback();
    let facts = PeerFacts { tls: true, certificate_subject, loopback };
    let host = server_name(&stream);
    speak(stream, first, shared, Peer { facts, address, over_limit, host }).await
}

/// A handshake that fails because of the client's certificate is a log-in that is refused. Whose certificate it is
/// is not known: rustls keeps none that it refuses.
fn note_refused_handshake(shared: &Shared, from: SocketAddr, error: &io::Error) {
    if tls::names_no_host(error) {
        shared.wrong_protocols.note(clock::instant(), from, Mistake::ServerName);
    }
    let Some(reason) = tls::refused_certificate(error) else { return };
    let refused = &RefusedLogin::unnamed(reason);
    let (mechanism, entity, subject) = ("tls", "", "");
    shared.audit.refuse_login(LoginEntry {
        who: None,
        from,
        namespace: "",
        mechanism,
        refused,
        entity,
        subject,
    });
}

/// The state that all connections share, and the turns of the thread that serves this one.
type Serving = (Arc<Shared>, Arc<HandshakeTurns>);

/// The TLS handshake. What the peer says in it is kept until it is whole, so it may not be long.
async fn shake_hands(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    (shared, turns): (&Shared, &HandshakeTurns),
) -> io::Result<TlsStream<ReadLimit<Socket>>> {
    let stream = ReadLimit::new(Socket::new(stream), HANDSHAKE_BYTES_MAX);
    let mut stream = tls::shake_hands(acceptor, stream, (&shared.namespaces, turns)).await?;
    stream.get_mut().0.lift();
    Ok(stream)
}

/// Most bytes that a peer may send in a TLS handshake: its hello, at most 2 KiB from an honest client, and its
/// certificate chain.
const HANDSHAKE_BYTES_MAX: usize = 16 << 10;

/// Result of a peer's first bytes, which must come within the handshake's time and before the server ends.
async fn in_time<T>(shared: &Shared, words: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match unless_stopped(&shared.stop, timeout(shared.handshake_time_out, words)).await {
        Ok(said) => said?,
        Err(_) => Err(io::Error::other("the broker stops, and the peer has said nothing yet")),
    }
}

/// Goes on in the protocol whose first byte this is. Each protocol is boxed, and so is TLS: a future is as large as the
/// largest way through it, and most connections idle on the smallest.
async fn speak<S>(stream: S, first: Option<u8>, shared: Arc<Shared>, peer: Peer) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match first {
        None => Ok(()),
        Some(first) if is_http(first) => Box::pin(http::serve(stream, shared, peer)).await,
        Some(_) => Box::pin(drive(stream, &shared, peer, false)).await,
    }
}

/// Each HTTP method that is in use begins with a capital letter other than the A of `AMQP` and the M of `MQTT`, whose
/// clients are told in AMQP's words what is spoken here.
const fn is_http(first: u8) -> bool {
    first.is_ascii_uppercase() && !matches!(first, b'A' | b'M')
}

/// Content type of a TLS handshake record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Speaks AMQP to the end. No `async fn`, which would hold what it is given beside what it makes of it.
pub(crate) fn drive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    shared: &Shared,
    Peer { facts: peer, address, over_limit, host }: Peer,
    web_socket: bool,
) -> impl Future<Output = io::Result<()>> + use<S> {
    let transport = Transport::new(peer.tls, web_socket);
    let connection_gauge = ConnectionGauge::take(Arc::clone(&shared.metrics), transport, address);
    let client = ClientId(shared.next_client.fetch_add(1, Ordering::Relaxed));
    // Tracking ids must differ between connections and between runs; the seed need not be secret.
    let seed = shared.seed ^ client.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let placer = Placer::new(Arc::clone(&shared.namespaces), Arc::clone(&shared.connection_limit), host);
    let first = placer.first();
    let gateway = Gateway::new(
        Arc::clone(&first.gateway),
        Arc::clone(&first.authority),
        client,
        peer,
        seed,
        shared.clock.now(),
    );
    let gateway =
        if over_limit { gateway.refused_over_limit(shared.connection_limit.limit()) } else { gateway };
    // As long as a peer may be silent it may also be deaf.
    let idle = shared.gateway.idle_time_out;
    let patience = (!idle.is_zero()).then(|| idle * 2);
    let faults = shared.faults.as_ref().map(watch::Sender::subscribe);
    let driver = Driver::new(
        stream,
        (gateway, placer),
        (client, connection_gauge),
        Arc::clone(&shared.clock),
        shared.stop.clone(),
        patience,
    );
    let entry = Entry::new(address, transport, shared.clock.utc(), Arc::clone(driver.effect_queue()));
    let driver = driver.with_faults(faults);
    let log = shared.observe.log_connections.then(|| ConnectionLog::new(client, address, transport));
    let driver = driver.with_watchers(Watchers {
        spans: shared.spans.clone(),
        audit: Arc::clone(&shared.audit),
        wrong_protocols: Arc::clone(&shared.wrong_protocols),
        log,
    });
    driver.with_listing(shared.listing.enter(client, entry)).run()
}

/// The name by which the client has called the broker in its TLS handshake.
fn server_name<S>(stream: &TlsStream<S>) -> Option<Box<str>> {
    stream.get_ref().1.server_name().map(Box::from)
}

/// The subject of the client's certificate, which rustls has verified.
fn subject<S>(stream: &TlsStream<S>) -> Option<String> {
    broker_auth::certificate_subject(stream.get_ref().1.peer_certificates()?.first()?)
}
