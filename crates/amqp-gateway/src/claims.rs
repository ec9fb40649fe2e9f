//! Authentication of the client, and the claims of its links.
//!
//! Invariant: no link to an entity is open without a claim that holds; a claim that ends takes its links along.

use std::time::{Duration, Instant};

use amqp_codec::{performative::SaslCode, types::Symbol};
use broker_auth::{Denied, EntityRule, Grants, Identity, Right, Rights, SaslError, Scope, Secret};
use broker_core::{AccessRight, AuthorizationRule, EntityPath, LinkId};
use bytes::Bytes;

use crate::{
    address, condition::Refusal, config::Now, gateway::Gateway, handshake::ANONYMOUS, link::Link,
    settlement_rules::Dialect,
};

impl Gateway {
    /// The client chose a mechanism.
    pub(crate) fn on_sasl(&mut self, mechanism: Symbol, response: Option<&Bytes>) {
        match self.authority.sasl(&self.peer, &mechanism, response.map(|bytes| &**bytes)) {
            Ok(identity) => {
                // Only the .NET SDK of Service Bus picks this one.
                if mechanism == "MSSBCBS" {
                    self.dialect = Dialect::ServiceBus;
                }
                self.log_in(identity, class_of(&mechanism));
                self.engine.sasl_outcome(SaslCode::Ok);
            }
            Err(SaslError::MissingResponse) if self.challenged.is_none() => {
                self.challenged = Some(mechanism);
                self.engine.sasl_challenge(Bytes::new());
            }
            Err(error) => {
                let chosen = (&*mechanism, response.map(|bytes| &**bytes));
                self.record.add_sasl((&self.authority, &self.peer), error, chosen);
                self.engine.sasl_outcome(SaslCode::Auth);
            }
        }
    }

    /// The client answers the challenge for its missing initial response.
    pub(crate) fn on_sasl_response(&mut self, response: &Bytes) {
        match self.challenged.clone() {
            Some(mechanism) => self.on_sasl(mechanism, Some(response)),
            None => self.engine.sasl_outcome(SaslCode::Auth),
        }
    }

    /// A client that used no SASL is an anonymous one.
    pub(crate) fn log_in_without_sasl(&mut self) {
        if !self.authenticated {
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
    pub fn authentication(&self) -> &'static str {
        if self.grants.is_empty() { self.log_in } else { "token" }
    }

    /// Checks that the client may do `right` at a store, or at its management node.
    pub(crate) fn claim(
        &self,
        path: &EntityPath,
        management: bool,
        right: Right,
    ) -> Result<(Scope, Right), Refusal> {
        let resource = address::resource(path, management);
        let scope = Scope::of(&resource);
        match self.grants.allows(&scope, right, self.now.unix_seconds()) {
            Ok(()) => Ok((scope, right)),
            Err(_) => Err(Refusal::Unauthorized { claim: claim_name(right), resource }),
        }
    }

    /// Notes when the claim of a new link ends. A token that extends a claim later leaves the note as it is: it
    /// is looked at again when its time has come.
    pub(crate) fn note_claim_of(&mut self, link: u32) {
        let claims = self.links.get(link).into_iter().flat_map(Link::claims);
        let ends = claims.filter_map(|(scope, right)| self.grants.valid_until(&scope, right));
        self.claims_end = self.claims_end.into_iter().chain(ends.filter(|end| *end != u64::MAX)).min();
    }

    /// Finds when the first claim of all links ends.
    fn find_claims_end(&mut self) {
        let claims = self
            .links
            .iter()
            .filter(|(_, link)| !link.detached_by_broker)
            .flat_map(|(_, link)| link.claims());
        let ends = claims.filter_map(|(scope, right)| self.grants.valid_until(&scope, right));
        self.claims_end = ends.min().filter(|end| *end != u64::MAX);
    }

    /// When the first claim of a link ends, on the monotonic clock.
    pub(crate) fn claims_deadline(&self) -> Option<Instant> {
        let end_millis = self.claims_end?.saturating_mul(1000);
        let left = end_millis.saturating_sub(self.now.wall.as_millis());
        // An hour at most: clocks drift, and looking once more costs nothing.
        self.now.instant.checked_add(Duration::from_millis(left.min(3_600_000)))
    }

    /// Detaches the links whose claim has ended.
    pub(crate) fn drop_expired_claims(&mut self) {
        let now = self.now.unix_seconds();
        if self.claims_end.is_some_and(|end| now >= end) {
            self.drop_lost_claims();
        }
    }

    /// Keys of entities have changed: links that a key has let in which is gone, or permits less, are detached.
    pub fn handle_keys_changed(&mut self, now: Now) {
        self.now = now;
        self.drop_lost_claims();
    }

    fn drop_lost_claims(&mut self) {
        let lost: Vec<(u32, Refusal)> = self
            .links
            .iter()
            .filter(|(_, link)| !link.detached_by_broker)
            .filter_map(|(id, link)| {
                let lost = link.claims().find_map(|(scope, right)| self.lost_claim(&scope, right))?;
                Some((id, lost))
            })
            .collect();
        for (id, refusal) in lost {
            self.detach_link(LinkId(id), &refusal);
        }
        self.find_claims_end();
    }

    /// Reason why a claim does not hold any more; `None` while it does.
    pub(crate) fn lost_claim(&self, scope: &Scope, right: Right) -> Option<Refusal> {
        let why = self.grants.allows(scope, right, self.now.unix_seconds()).err()?;
        let (claim, resource) = (claim_name(right), scope.as_str().to_owned());
        Some(match why {
            Denied::Expired { .. } => Refusal::ClaimExpired { claim, resource },
            Denied::Missing { .. } => Refusal::Unauthorized { claim, resource },
        })
    }
}

/// The authorization rules of an entity, as whoever judges tokens wants them.
pub fn entity_rules(rules: &[AuthorizationRule]) -> Vec<EntityRule> {
    let rule = |rule: &AuthorizationRule| EntityRule {
        name: rule.name.clone(),
        primary: Secret::new(rule.primary.reveal()),
        secondary: rule.secondary.as_ref().map(|key| Secret::new(key.reveal())),
        rights: rights(&rule.rights),
    };
    rules.iter().map(rule).collect()
}

fn rights(rights: &[AccessRight]) -> Rights {
    let right = |right: &AccessRight| match right {
        AccessRight::Manage => Right::Manage,
        AccessRight::Send => Right::Send,
        AccessRight::Listen => Right::Listen,
    };
    rights.iter().map(right).collect()
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
