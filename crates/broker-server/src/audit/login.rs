//! The line of a refused log-in.
//!
//! Invariant: no secret is part of it.

use std::net::SocketAddr;

use broker_auth::RefusedLogin;
use tracing::warn;

use super::text::{TARGET, short};

/// A log-in that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginEntry<'a> {
    /// Name of the key that was proved before on the same request; `None`: none was.
    pub(crate) who: Option<&'a str>,
    /// Address of the client.
    pub(crate) from: SocketAddr,
    /// The namespace that refused; empty where none was asked.
    pub(crate) namespace: &'a str,
    /// A SASL mechanism, `cbs`, `tls` or `http`.
    pub(crate) mechanism: &'static str,
    /// The reason, and the name that the client gave.
    pub(crate) refused: &'a RefusedLogin,
    /// The place that it asked for.
    pub(crate) entity: &'a str,
    /// The action that it asked for, over HTTP.
    pub(crate) subject: &'a str,
}

impl LoginEntry<'_> {
    /// Writes the line; so many like it were refused before and not logged.
    pub(super) fn write(&self, others: u64) {
        let Self { who, from, namespace, mechanism, refused, entity, subject } = self;
        let (who, reason, key) = (who.unwrap_or(""), refused.reason.name(), short(&refused.key));
        let (entity, subject, action, result) = (short(entity), short(subject), "login", "refused");
        warn!(
            target: TARGET,
            who,
            %from,
            action,
            namespace,
            entity,
            subject,
            result,
            reason,
            mechanism,
            key,
            others,
            "administration"
        );
    }
}
