//! TLS handshakes: their steps, and the reasons of those that fail.
//!
//! Invariant: a handshake computes only in its turn, and has none while it waits for its peer. A reason is read from the error of
//! rustls, never from its text.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use broker_auth::LoginRefusal;
use rustls::{CertificateError, PeerMisbehaved, server::Acceptor};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor, server::TlsStream};

use crate::{handshake_turns::HandshakeTurns, namespaces::NamespaceDirectory, turn_queue::Step};

/// The handshake of a client on `stream`. The server name in its hello says whose turns it takes.
pub(crate) async fn shake_hands<S>(
    acceptor: &TlsAcceptor,
    stream: S,
    (namespaces, turns): (&NamespaceDirectory, &HandshakeTurns),
) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let meant = namespaces.lookup(hello.client_hello().server_name());
    let namespace = meant.found().unwrap_or_else(|| namespaces.of_default());
    let wait = |step| turns.wait(namespace.residence(), namespace.definition().settings.weight, step);
    let mut step = Step::Begin;
    let mut grant = wait(step).await;
    // The signature is made here, and where the hello was no good for that, in a later step.
    let mut handshake = hello.into_stream(Arc::clone(acceptor.config()));
    loop {
        let computed = poll_fn(|cx| Poll::Ready(Pin::new(&mut handshake).poll(cx))).await;
        namespace.handshakes.add(step, grant.end());
        if let Poll::Ready(result) = computed {
            return result;
        }
        let mut is_called = false;
        poll_fn(
            |_: &mut Context<'_>| {
                if std::mem::replace(&mut is_called, true) { Poll::Ready(()) } else { Poll::Pending }
            },
        )
        .await;
        step = Step::Continue;
        grant = wait(step).await;
    }
}

/// The reason of a failed handshake, if it is the client's certificate.
pub(crate) fn refused_certificate(error: &io::Error) -> Option<LoginRefusal> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(reason) = error else { return None };
    Some(match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            LoginRefusal::UntrustedCertificate
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => LoginRefusal::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            LoginRefusal::NotYetValid
        }
        _ => LoginRefusal::BadCertificate,
    })
}

/// Whether a handshake failed because the server name that the client asks for is none.
pub(crate) fn names_no_host(error: &io::Error) -> bool {
    let refused = rustls::Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName);
    error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) == Some(&refused)
}
