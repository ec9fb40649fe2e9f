//! Client of one connection: its authentication, its grants, and the dialect that it speaks.
//!
//! Invariant: a client has no grants but those of its SASL identity and of the tokens that were verified.

use std::{borrow::Cow, sync::Arc, time::Instant};

use amqp_codec::{
    performative::{Open, SaslCode},
    types::Symbol,
};
use amqp_engine::Connection;
use broker_auth::{
    Authority, Denied, Grant, Grants, Identity, JwtError, PeerFacts, Right, SaslError, Scope, TokenError,
    TooManyGrants,
};
use broker_core::{DYNAMIC_PREFIX, EntityPath};
use bytes::Bytes;
use tracing::{Span, info};

use super::{
    client_library::ClientLibrary,
    key_wait::KeyWait,
    placement::GatewayNamespace,
    record::ConnectionRecord,
    sasl_exchange::{LoginDecision, SaslExchange},
};
use crate::{address, condition::Refusal, config::Now, dialect::Dialect, turn_work::TurnWork};

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
    /// Metric label of the SASL mechanism.
    log_in: &'static str,
    /// The log-in of a client that uses SASL, until its open is placed.
    exchange: Option<SaslExchange>,
    /// The log-in waits for the keys of its token's provider.
    key_wait: Option<KeyWait>,
    /// Whether the log says that its delivery-tags are too long.
    has_long_tags: bool,
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
            log_in: "none",
            exchange: None,
            key_wait: None,
            has_long_tags: false,
        }
    }

    /// A delivery-tag is longer than the protocol allows.
    #[cold]
    pub(crate) fn on_long_tag(&mut self, span: &Span) {
        if !std::mem::replace(&mut self.has_long_tags, true) {
            info!(parent: span, "the client sends delivery-tags of more than 32 bytes");
        }
    }

    /// The client has chosen a mechanism.
    pub(crate) fn on_sasl_init(&mut self, mechanism: Symbol, response: Option<&[u8]>) {
        self.exchange = Some(SaslExchange::new(mechanism, response));
    }

    /// Another authority judges from now on.
    pub(crate) fn set_authority(&mut self, authority: Arc<Authority>) {
        self.authority = authority;
    }

    /// The client has not said in which namespace it logs in.
    pub(crate) const fn set_tentative(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.set_tentative();
        }
    }

    /// Judges the log-in, before the open.
    pub(crate) fn judge(
        &mut self,
        engine: &mut Connection,
        record: &mut ConnectionRecord,
        work: &mut TurnWork,
        now: Now,
    ) {
        let Some(exchange) = &mut self.exchange else { return engine.sasl_outcome(SaslCode::Auth) };
        let wait = self.key_wait.take().unwrap_or_else(|| KeyWait::begun(now.instant));
        match exchange.judge((&self.authority, &self.peer), work, now.unix_seconds()) {
            LoginDecision::Accepted(identity) => {
                let (mechanism, _) = exchange.chosen();
                let class = class_of(mechanism);
                // Only the .NET SDK of Service Bus picks this one.
                if mechanism == "MSSBCBS" {
                    self.dialect = Dialect::ServiceBus;
                }
                self.log_in(identity, class);
                engine.sasl_outcome(SaslCode::Ok);
            }
            LoginDecision::AwaitsKeys => {
                self.key_wait = wait.go_on(now.instant);
                if self.key_wait.is_some() {
                    return;
                }
                let error = SaslError::Token(JwtError::UnknownKey { refreshable: true });
                record.add_sasl((&self.authority, &self.peer), error, exchange.chosen());
                engine.sasl_outcome(SaslCode::Auth);
            }
            LoginDecision::Challenge => engine.sasl_challenge(Bytes::new()),
            LoginDecision::Postponed => engine.sasl_outcome(SaslCode::Ok),
            LoginDecision::Refused(error) => {
                record.add_sasl((&self.authority, &self.peer), error, exchange.chosen());
                engine.sasl_outcome(SaslCode::Auth);
            }
        }
    }

    /// When to look at the log-in again: it waits for the key of its token, or ends with it. The end has an error only once
    /// the connection `is_open`.
    pub(crate) fn login_deadline(&self, now: Now, is_open: bool) -> Option<Instant> {
        let end = self.login_end().filter(|_| is_open).and_then(|end| now.instant_of(end));
        self.key_wait.map(|wait| wait.again).into_iter().chain(end).min()
    }

    /// Looks again at a log-in that waits for its provider's keys, if it is time.
    pub(crate) fn look_at_login(
        &mut self,
        engine: &mut Connection,
        record: &mut ConnectionRecord,
        work: &mut TurnWork,
        now: Now,
    ) {
        if engine.is_closing() {
            self.key_wait = None;
        }
        if self.key_wait.is_some_and(|wait| wait.again <= now.instant) {
            self.judge(engine, record, work, now);
        }
    }

    /// When the log-in ends with its token, in seconds since 1970.
    pub(crate) fn login_end(&self) -> Option<u64> {
        self.grants.identity().expires_at()
    }

    /// The client answers the challenge for its missing initial response.
    pub(crate) fn on_sasl_response(
        &mut self,
        response: &Bytes,
        engine: &mut Connection,
        record: &mut ConnectionRecord,
        work: &mut TurnWork,
        now: Now,
    ) {
        if self.exchange.as_mut().is_some_and(|exchange| exchange.respond(response)) {
            self.judge(engine, record, work, now);
        } else {
            engine.sasl_outcome(SaslCode::Auth);
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
    }

    /// The client's open leads to this namespace, whose authority judges it from now on. A log-in that this
    /// authority has not accepted yet is judged, and erased.
    pub(crate) fn enter(
        &mut self,
        namespace: &GatewayNamespace,
        record: &mut ConnectionRecord,
        work: &mut TurnWork,
        now: Now,
    ) -> Result<(), Refusal> {
        let is_same = Arc::ptr_eq(&self.authority, &namespace.authority);
        self.authority = Arc::clone(&namespace.authority);
        let Some(exchange) = self.exchange.take() else {
            return self.enter_without_sasl(namespace, record, now);
        };
        if is_same && exchange.is_accepted() {
            return Ok(());
        }
        match exchange.judge_finally((&self.authority, &self.peer), work, now.unix_seconds()) {
            Ok(identity) => {
                self.log_in(identity, class_of(exchange.chosen().0));
                Ok(())
            }
            Err(error) => {
                record.add_sasl((&self.authority, &self.peer), error, exchange.chosen());
                // Rights that another namespace gave are worth nothing here.
                self.grants = Grants::new(Identity::nobody());
                Err(Refusal::LogIn { namespace: Arc::clone(&namespace.name), uses_sasl: true })
            }
        }
    }

    /// A client that used no SASL is an anonymous one, and let in only where such clients have rights: it could not
    /// be told of SASL any more.
    fn enter_without_sasl(
        &mut self,
        namespace: &GatewayNamespace,
        record: &mut ConnectionRecord,
        now: Now,
    ) -> Result<(), Refusal> {
        match self.authority.sasl(&self.peer, ANONYMOUS, None, now.unix_seconds()) {
            Ok(identity) if identity != Identity::nobody() => {
                self.log_in(identity, "anonymous");
                Ok(())
            }
            _ => {
                record.add_missing_sasl();
                Err(Refusal::LogIn { namespace: Arc::clone(&namespace.name), uses_sasl: false })
            }
        }
    }

    fn log_in(&mut self, identity: Identity, class: &'static str) {
        self.log_in = class;
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

    /// Whether deliveries without a lock, on a link of this dialect, have an empty tag.
    pub(crate) fn gets_empty_tags(&self, dialect: Dialect) -> bool {
        self.library.understands_empty_tags() && dialect == Dialect::ServiceBus
    }

    /// Whether the client makes a new connection only after a close that is forced.
    pub(crate) const fn reconnects_only_after_forced_closes(&self) -> bool {
        self.library.reconnects_only_after_forced_closes()
    }

    /// Whether the client takes the reply to its token for the answer whether an entity exists.
    pub(crate) const fn learns_of_missing_entities_by_token(&self) -> bool {
        self.library.learns_of_missing_entities_by_token()
    }

    /// Whether the answer to a token of an identity provider tells the client that an entity is missing as if a right was.
    pub(crate) const fn takes_missing_entities_for_unauthorized(&self) -> bool {
        self.library.takes_missing_entities_for_unauthorized()
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
        let scope = Scope::of_name(&resource);
        match self.grants.allows(&scope, right, now) {
            Ok(()) => Ok((scope, right)),
            Err(_) => Err(Refusal::Unauthorized { claim: claim_name(right), resource }),
        }
    }

    /// Checks that the client may have dynamic nodes.
    pub(crate) fn claim_dynamic(&self, now: u64) -> Result<(Scope, Right), Refusal> {
        let (scope, right) = (Scope::of(DYNAMIC_PREFIX), Right::Dynamic);
        if self.grants.allows(&scope, right, now).is_ok() {
            return Ok((scope, right));
        }
        let resource = scope.as_str().to_owned();
        Err(Refusal::Unauthorized { claim: claim_name(right), resource })
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
        "OAUTHBEARER" | "XOAUTH2" => "token",
        _ => "anonymous",
    }
}

/// A right as error texts call it.
const fn claim_name(right: Right) -> &'static str {
    match right {
        Right::Send => "Send",
        Right::Listen => "Listen",
        Right::Manage => "Manage",
        Right::Dynamic => "Dynamic",
    }
}
