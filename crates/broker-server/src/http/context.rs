//! Context of a request: its client, and the state of the broker.
//!
//! Invariant: a body is read within its limits of bytes and time.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use broker_auth::PeerFacts;
use broker_core::DEFAULT_NAMESPACE;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use tokio::time::timeout;

use super::answer::{BODY_BYTES_MAX, Refusal};
use crate::{audit::LoginEntry, shared::Shared, shutdown::unless_stopped};

/// Context of the requests of one HTTP connection: its client, and the state of the broker.
#[derive(Clone)]
pub(super) struct RequestContext {
    pub(super) shared: Arc<Shared>,
    pub(super) peer: Arc<PeerFacts>,
    /// Address of the client.
    pub(super) from: SocketAddr,
    /// The connection is beyond the limit of them.
    pub(super) over_limit: bool,
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
        let namespace = DEFAULT_NAMESPACE;
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

    pub(super) fn upgrade_to(&self, upgrade: OnUpgrade) {
        *self.upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some(upgrade);
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
