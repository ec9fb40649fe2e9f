//! Facts about one connection that its shell takes for the log: changes, refused log-ins, and the reason of its end.
//!
//! Invariant: one entry for each SASL exchange and each token that was refused; a client that shows no credentials at all
//! has one, however many links it asks for. Of the reasons of an end the first stays. No entry holds a secret.

use std::sync::Arc;

use amqp_codec::{performative::Error, text::cut};
use amqp_engine::{Origin, Peer, RefusedHandshake};
use broker_auth::{
    Authority, Grants, Identity, LoginRefusal, PeerFacts, RefusedLogin, SaslError, TokenError,
};

use super::placement::PlacementRefusal;
use crate::condition::Refusal;

/// One change that a client asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditEvent {
    /// The namespace of the entity.
    pub namespace: Box<str>,
    /// Name of the key, user or subject that permitted it, or that did not.
    pub who: Box<str>,
    /// `add-rule`, `remove-rule` or `purge`.
    pub action: &'static str,
    /// The entity, as the client named it.
    pub entity: Box<str>,
    /// The rule, or how many messages are gone.
    pub subject: Option<Box<str>>,
    /// The condition with which it was refused; `None`: it is done.
    pub refused: Option<&'static str>,
}

/// A log-in that was refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LoginRecord {
    /// The namespace that refused; empty where the log-in was refused before it was known.
    pub namespace: Box<str>,
    /// `plain`, `external`, `anonymous`, `mssbcbs`, `oauthbearer`, `xoauth2`, `cbs` for a token, `none` without SASL, `other` for a mechanism that
    /// is not known here.
    pub mechanism: &'static str,
    /// The reason, and the name that the client gave.
    pub refused: RefusedLogin,
    /// The place that the client asked for; empty where it asked for none.
    pub entity: Box<str>,
}

/// The end of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ending {
    /// One of a fixed list.
    pub reason: &'static str,
    /// The error condition that one side has sent to the other; empty for none.
    pub condition: Box<str>,
    /// The description beside it, cut short.
    pub description: Box<str>,
}

impl Ending {
    fn new(reason: &'static str, error: Option<&Error>) -> Self {
        let condition = error.map_or("", |error| cut(error.condition.as_str(), TEXT_BYTES_MAX));
        let description = error.and_then(|error| error.description.as_deref()).unwrap_or_default();
        Self { reason, condition: condition.into(), description: cut(description, TEXT_BYTES_MAX).into() }
    }
}

/// Facts that nobody has taken yet, and those that stay.
#[derive(Debug, Default)]
pub struct ConnectionRecord {
    changes: Vec<AuditEvent>,
    refused_logins: Vec<LoginRecord>,
    /// It was noted that the client shows no credentials.
    is_nameless: bool,
    has_opened: bool,
    /// The namespace of the log-in, then that of the open.
    namespace: Option<Arc<str>>,
    ending: Option<Box<Ending>>,
    refused_header: Option<[u8; 8]>,
}

impl ConnectionRecord {
    /// The changes that were asked for since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<AuditEvent> {
        std::mem::take(&mut self.changes)
    }

    /// The log-ins that were refused since the last call, in order.
    pub fn take_refused_logins(&mut self) -> Vec<LoginRecord> {
        std::mem::take(&mut self.refused_logins)
    }

    /// Whether the client has opened the connection.
    pub const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Name of the namespace that the client means; empty before that is known.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// The end of the connection; `None` before it.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_deref()
    }

    /// The protocol header that was refused, if one was.
    pub const fn refused_header(&self) -> Option<[u8; 8]> {
        self.refused_header
    }

    pub(crate) fn add_change(&mut self, change: AuditEvent) {
        self.changes.push(change);
    }

    pub(crate) fn set_namespace(&mut self, namespace: Option<Arc<str>>) {
        self.namespace = namespace;
    }

    pub(crate) const fn set_opened(&mut self) {
        self.has_opened = true;
    }

    /// A token was refused.
    pub(crate) fn add_token(&mut self, error: &TokenError, token: &str, audience: &str) {
        self.add_login("cbs", RefusedLogin::of_token(error, token), audience);
    }

    /// A good token was refused, for the connection holds too many.
    pub(crate) fn add_excess_token(&mut self, key: &str, audience: &str) {
        self.add_login(
            "cbs",
            RefusedLogin { reason: LoginRefusal::TooManyTokens, key: key.into() },
            audience,
        );
    }

    /// The client's choice of a mechanism was refused.
    pub(crate) fn add_sasl(
        &mut self,
        (authority, peer): (&Authority, &PeerFacts),
        error: SaslError,
        (mechanism, response): (&str, Option<&[u8]>),
    ) {
        let refused = RefusedLogin::of_sasl(authority, peer, error, (mechanism, response));
        self.add_login(name_of(mechanism), refused, "");
    }

    /// The client has opened without SASL, where nobody may do anything without.
    pub(crate) fn add_missing_sasl(&mut self) {
        self.add_nameless("none", "");
    }

    /// A link or request was refused. It counts as a log-in where the client has shown nothing that could permit it.
    pub(crate) fn add_if_nameless(&mut self, refusal: &Refusal, grants: &Grants, peer: &Peer) {
        if let Refusal::Unauthorized { resource, .. } = refusal
            && grants.is_empty()
            && grants.identity() == &Identity::nobody()
        {
            let chosen = peer.sasl_mechanism.as_ref().map(|mechanism| name_of(mechanism));
            self.add_nameless(chosen.unwrap_or("none"), resource);
        }
    }

    /// The engine says that the connection is over.
    pub(crate) fn set_closed(
        &mut self,
        by: Origin,
        error: Option<&Error>,
        peer: &Peer,
        judges: (&Authority, &PeerFacts),
    ) {
        match &peer.refused {
            Some(RefusedHandshake::Mechanism(mechanism)) => {
                self.add_sasl(judges, SaslError::NotOffered, (mechanism, None));
            }
            Some(RefusedHandshake::Header(header)) => {
                self.refused_header = Some(*header);
                if *header == AMQP_HEADER {
                    self.add_missing_sasl();
                }
            }
            None => {}
        }
        let reason = match (by, error) {
            (Origin::Peer, None) => "closed by the client",
            (Origin::Peer, Some(_)) => "closed by the client with an error",
            (Origin::Transport, _) => "connection lost",
            (Origin::Engine, _) if peer.has_timed_out => "idle time-out",
            (Origin::Engine, _) => "protocol error",
        };
        self.set_ending(Ending::new(reason, error));
    }

    /// The broker closes the connection.
    pub(crate) fn set_closing(&mut self, refusal: &Refusal, error: &Error) {
        let reason = match refusal {
            Refusal::ShuttingDown => "shutdown",
            Refusal::Failed => "the broker failed",
            Refusal::Ended => "closed by an operator",
            Refusal::TooManyConnections { .. }
            | Refusal::Placement(
                PlacementRefusal::TooManyConnections { .. } | PlacementRefusal::BeyondShare { .. },
            ) => "too many connections",
            Refusal::Placement(PlacementRefusal::Unknown { .. }) => "unknown host name",
            Refusal::Placement(PlacementRefusal::OnHold { .. }) => "namespace held",
            Refusal::Placement(PlacementRefusal::Recovering { .. }) => "shard recovering",
            Refusal::Placement(PlacementRefusal::Deleted { .. }) => "namespace deleted",
            Refusal::LogIn { .. } => "log-in refused",
            Refusal::LogInExpired { .. } => "log-in expired",
            _ => "closed by the broker",
        };
        self.set_ending(Ending::new(reason, Some(error)));
    }

    fn set_ending(&mut self, ending: Ending) {
        self.ending.get_or_insert_with(|| Box::new(ending));
    }

    fn add_login(&mut self, mechanism: &'static str, refused: RefusedLogin, entity: &str) {
        let namespace = self.namespace().into();
        self.refused_logins.push(LoginRecord { namespace, mechanism, refused, entity: entity.into() });
    }

    fn add_nameless(&mut self, mechanism: &'static str, entity: &str) {
        if !std::mem::replace(&mut self.is_nameless, true) {
            self.add_login(mechanism, RefusedLogin::unnamed(LoginRefusal::NoCredentials), entity);
        }
    }
}

/// The name of a mechanism in logs and metrics: a fixed list, for the client may send anything.
fn name_of(mechanism: &str) -> &'static str {
    match mechanism {
        "PLAIN" => "plain",
        "EXTERNAL" => "external",
        "ANONYMOUS" => "anonymous",
        "MSSBCBS" => "mssbcbs",
        "OAUTHBEARER" => "oauthbearer",
        "XOAUTH2" => "xoauth2",
        _ => "other",
    }
}

/// AMQP 1.0 without SASL (transport 2.2).
const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";
/// Bytes of a condition or description that are kept.
const TEXT_BYTES_MAX: usize = 512;
