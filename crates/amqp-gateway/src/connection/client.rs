//! Client of one connection: its authentication, its grants, and the dialect that it speaks.
//!
//! Invariant: a client has no grants but those of its SASL identity and of the tokens that were verified.

use std::{borrow::Cow, sync::Arc};

use amqp_codec::{
    performative::{Open, SaslCode},
    types::Symbol,
};
use amqp_engine::Connection;
use broker_auth::{
    Authority, Denied, Grant, Grants, Identity, PeerFacts, Right, SaslError, Scope, TokenError, TooManyGrants,
};
use broker_core::EntityPath;
use bytes::Bytes;

use super::{client_library::ClientLibrary, record::ConnectionRecord};
use crate::{address, condition::Refusal, dialect::Dialect};

/// The SASL mechanism of clients without credentials.
pub(crate) const ANONYMOUS: &str = "ANONYMOUS";

/// The client of one connection.
#[derive(Debug)]
pub(crate) struct Client {
    authority: Arc<Authority>,
    peer: PeerFacts,
    /// Container id of the peer.
    container: Box<str>,
    library: ClientLibrary,
    grants: Grants,
    /// Service Bus once the client has shown that it is one.
    dialect: Dialect,
    /// Whether SASL has authenticated the client.
    authenticated: bool,
    /// Metric label of the SASL mechanism.
    log_in: &'static str,
    /// The mechanism that was asked for its missing initial response.
    challenged: Option<Symbol>,
}

impl Client {
    /// A peer that has shown nothing yet.
    pub(crate) fn new(authority: Arc<Authority>, peer: PeerFacts) -> Self {
        Self {
            authority,
            peer,
            container: Box::default(),
            library: ClientLibrary::default(),
            grants: Grants::new(Identity::nobody()),
            dialect: Dialect::Plain,
            authenticated: false,
            log_in: "none",
            challenged: None,
        }
    }

    /// The client chose a mechanism.
    pub(crate) fn on_sasl(
        &mut self,
        mechanism: Symbol,
        response: Option<&Bytes>,
        engine: &mut Connection,
        record: &mut ConnectionRecord,
    ) {
        match self.authority.sasl(&self.peer, &mechanism, response.map(|bytes| &**bytes)) {
            Ok(identity) => {
                // Only the .NET SDK of Service Bus picks this one.
                if mechanism == "MSSBCBS" {
                    self.dialect = Dialect::ServiceBus;
                }
                self.log_in(identity, class_of(&mechanism));
                engine.sasl_outcome(SaslCode::Ok);
            }
            Err(SaslError::MissingResponse) if self.challenged.is_none() => {
                self.challenged = Some(mechanism);
                engine.sasl_challenge(Bytes::new());
            }
            Err(error) => {
                let chosen = (&*mechanism, response.map(|bytes| &**bytes));
                record.add_sasl((&self.authority, &self.peer), error, chosen);
                engine.sasl_outcome(SaslCode::Auth);
            }
        }
    }

    /// The client answers the challenge for its missing initial response.
    pub(crate) fn on_sasl_response(
        &mut self,
        response: &Bytes,
        engine: &mut Connection,
        record: &mut ConnectionRecord,
    ) {
        match self.challenged.clone() {
            Some(mechanism) => self.on_sasl(mechanism, Some(response), engine, record),
            None => engine.sasl_outcome(SaslCode::Auth),
        }
    }

    /// The client's open has come.
    pub(crate) fn on_opened(&mut self, open: &Open) {
        self.container = open.container_id.as_str().into();
        self.library = ClientLibrary::of(open);
        if self.library.is_service_bus() {
            // The receivers of .NET send no properties by which they could be known.
            self.dialect = Dialect::ServiceBus;
        }
        if !self.authenticated {
            // A client that used no SASL is an anonymous one.
            let identity = self.authority.sasl(&self.peer, ANONYMOUS, None);
            self.log_in(identity.unwrap_or_else(|_| Identity::nobody()), "anonymous");
        }
    }

    fn log_in(&mut self, identity: Identity, class: &'static str) {
        self.log_in = class;
        self.authenticated = true;
        self.challenged = None;
        self.grants = Grants::new(identity);
    }

    /// Authentication of the client so far: `none`, `anonymous`, `plain`, `external` or `token`.
    pub(crate) fn authentication(&self) -> &'static str {
        if self.grants.is_empty() { self.log_in } else { "token" }
    }

    /// The authority that judges the client, and the facts that the transport knows of it.
    pub(crate) fn judges(&self) -> (&Authority, &PeerFacts) {
        (&self.authority, &self.peer)
    }

    /// The rights that the client has shown.
    pub(crate) const fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Container id of the client; empty before its open.
    pub(crate) fn container(&self) -> &str {
        &self.container
    }

    /// Dialect of the client, as far as it has shown it.
    pub(crate) const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The client has shown that it is one of Service Bus.
    pub(crate) const fn set_service_bus(&mut self) {
        self.dialect = Dialect::ServiceBus;
    }

    /// Whether outcomes other than `accepted` wait before they go out.
    pub(crate) fn delays_outcomes(&self) -> bool {
        self.library.overwrites_early_outcomes() && self.dialect == Dialect::ServiceBus
    }

    /// Whether the client takes the reply to its token for the answer whether an entity exists.
    pub(crate) const fn learns_of_missing_entities_by_token(&self) -> bool {
        self.library.learns_of_missing_entities_by_token()
    }

    /// Verifies a token at a time in seconds since 1970.
    pub(crate) fn verify_token(
        &self,
        token: &str,
        kind: &str,
        audience: &str,
        now: u64,
    ) -> Result<Grant, TokenError> {
        self.authority.verify_token(token, kind, audience, now)
    }

    /// Extends the client's grants by that of a token.
    pub(crate) fn add_grant(&mut self, grant: Grant, now: u64) -> Result<(), TooManyGrants> {
        self.grants.add(grant, now)
    }

    /// Checks that the client may do `right` at a store, or at its management node.
    pub(crate) fn claim(
        &self,
        path: &EntityPath,
        management: bool,
        right: Right,
        now: u64,
    ) -> Result<(Scope, Right), Refusal> {
        let resource = address::resource(path, management);
        let scope = Scope::of(&resource);
        match self.grants.allows(&scope, right, now) {
            Ok(()) => Ok((scope, right)),
            Err(_) => Err(Refusal::Unauthorized { claim: claim_name(right), resource }),
        }
    }

    /// Reason why a claim does not hold any more; `None` while it does.
    pub(crate) fn lost_claim(&self, scope: &Scope, right: Right, now: u64) -> Option<Refusal> {
        let why = self.grants.allows(scope, right, now).err()?;
        let (claim, resource) = (claim_name(right), scope.as_str().to_owned());
        Some(match why {
            Denied::Expired { .. } => Refusal::ClaimExpired { claim, resource },
            Denied::Missing { .. } => Refusal::Unauthorized { claim, resource },
        })
    }

    /// When the first of these claims ends, in seconds since 1970; `None` where none does.
    pub(crate) fn first_end<'a>(&self, claims: impl Iterator<Item = (Cow<'a, Scope>, Right)>) -> Option<u64> {
        let ends = claims.filter_map(|(scope, right)| self.grants.valid_until(&scope, right));
        ends.filter(|end| *end != u64::MAX).min()
    }
}

/// Metric label of a mechanism. `MSSBCBS` of the .NET SDK says only that a token will follow.
fn class_of(mechanism: &str) -> &'static str {
    match mechanism {
        "PLAIN" => "plain",
        "EXTERNAL" => "external",
        _ => "anonymous",
    }
}

/// A right as error texts call it.
const fn claim_name(right: Right) -> &'static str {
    match right {
        Right::Send => "Send",
        Right::Listen => "Listen",
        Right::Manage => "Manage",
    }
}
