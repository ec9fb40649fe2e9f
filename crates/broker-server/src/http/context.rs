//! Context of a request: its client, and the state of the broker.
//!
//! Invariant: a body is read within its limits of bytes and time.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use broker_admin::Namespace;
use broker_auth::PeerFacts;
use broker_core::Timestamp;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, header::HOST, upgrade::OnUpgrade};
use tokio::time::timeout;

use super::answer::{BODY_BYTES_MAX, Refusal};
use crate::{
    audit::LoginEntry,
    namespaces::{ServedNamespace, directory::Meant},
    shared::Shared,
    shutdown::unless_stopped,
};

/// Context of the requests of one HTTP connection: its client, and the state of the broker.
#[derive(Clone)]
pub(super) struct RequestContext {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<PeerFacts>,
    /// Address of the client.
    pub(super) from: SocketAddr,
    /// The connection is beyond the limit of them.
    pub(super) over_limit: bool,
    /// The name by which the client has called the broker in the TLS handshake.
    pub(super) server_name: Option<Box<str>>,
    /// The namespace that the request means; before the first one, the default one.
    pub(super) namespace: Arc<ServedNamespace>,
    /// The host of the request that goes on in AMQP.
    pub(super) upgrade_host: Arc<Mutex<Option<Box<str>>>>,
    /// Set by a request that turns the connection into a WebSocket.
    pub(super) upgrade: Arc<Mutex<Option<OnUpgrade>>>,
}

impl RequestContext {
    /// Counts and logs a refused log-in; false where the refusal is another one.
    pub(super) fn note_refused_login(
        &self,
        refusal: &Refusal,
        who: Option<&str>,
        entity: &str,
        subject: &str,
    ) -> bool {
        let Some(refused) = refusal.login() else { return false };
        let (from, mechanism) = (self.from, "http");
        let namespace = &*self.namespace.name;
        self.shared.audit.refuse_login(LoginEntry {
            who,
            from,
            namespace,
            mechanism,
            refused,
            entity,
            subject,
        });
        true
    }

    /// The context of a request for `host`, which leads to a namespace, or an error where it leads to none.
    pub(super) fn of_host(&self, host: Option<&str>) -> Result<Self, Refusal> {
        match self.shared.namespaces.lookup(self.sign(host)) {
            Meant::Named(namespace) | Meant::Default(namespace) => Ok(Self { namespace, ..self.clone() }),
            Meant::Unknown(host) => Err(Refusal::NoNamespace(host)),
        }
    }

    /// The host name that says the namespace: that of the request, or the TLS server name where that one alone names one.
    fn sign<'a>(&'a self, host: Option<&'a str>) -> Option<&'a str> {
        let names_one = |name: &&str| matches!(self.shared.namespaces.lookup(Some(name)), Meant::Named(_));
        host.filter(names_one).or_else(|| self.server_name.as_deref().filter(names_one)).or(host)
    }

    /// Properties of the namespace, for the management API.
    pub(super) fn namespace_info(&self) -> Namespace {
        let created_at = self.namespace.definition().created_at;
        // The default one is there without having been created.
        let created_at = if created_at == Timestamp::default() { self.shared.started_at } else { created_at };
        Namespace { tier: self.shared.profile.tier(), created_at }
    }

    pub(super) fn upgrade_to(&self, upgrade: OnUpgrade) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
    }

    /// The name by which the connection that goes on in AMQP was reached.
    pub(super) fn upgrade_host(&self) -> Option<Box<str>> {
        let host = self.upgrade_host.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.sign(host.as_deref()).map(Box::from).or_else(|| self.server_name.clone())
    }

    /// The connection goes on in AMQP, and was reached as `host`.
    pub(super) fn set_upgrade_host(&self, host: Option<&str>) {
        *self.upgrade_host.lock().unwrap_or_else(PoisonError::into_inner) = host.map(Box::from);
    }

    pub(super) fn take_upgrade(&self) -> Option<OnUpgrade> {
        self.upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The body of a request, within its bounds.
    pub(super) async fn body(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let in_time = timeout(BODY_TIME.min(self.shared.handshake_time_out), whole(body));
        match unless_stopped(&self.shared.stop, in_time).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) => Err(Refusal::TooSlow),
            Err(_) => Err(Refusal::Stopping),
        }
    }
}

/// The host that a request is for.
pub(super) fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let target = request.uri().authority().map(hyper::http::uri::Authority::as_str);
    target.or_else(|| request.headers().get(HOST)?.to_str().ok())
}

/// A body in one piece: kept as it comes, each byte could be a piece that costs thirty.
async fn whole(mut body: Incoming) -> Result<Bytes, Refusal> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let unreadable = |error| Refusal::Bad(format!("the body cannot be read: {error}"));
        // Trailers are ignored.
        let Ok(piece) = frame.map_err(unreadable)?.into_data() else { continue };
        if all.len() + piece.len() > BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

/// Time for a body to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);
