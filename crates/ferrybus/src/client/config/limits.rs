//! Limits of the broker's profile, which change declared properties: defaults and bounds.
//!
//! Invariant: what a broker would refuse is left as it is, so that it is the broker that says why.

use broker_core::{EntityError, Profile};
use broker_server::EntityPlan;
use hyper::{Method, StatusCode};
use serde_json::Value;

use crate::{
    client::{
        http::HttpRequest,
        management::{Management, good},
    },
    failure::Failure,
};

/// Limits of all entities of a broker.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Limits {
    profile: Profile,
    max_message_bytes: u64,
}

/// Of a broker that does not say.
pub(super) const UNKNOWN: Limits = Limits { profile: Profile::STANDARD, max_message_bytes: u64::MAX };

impl Limits {
    /// Those of a broker with this profile and this largest message, in bytes.
    pub(crate) const fn new(profile: Profile, max_message_bytes: u64) -> Self {
        Self { profile, max_message_bytes }
    }

    /// Asks a broker for them.
    pub(super) async fn of(management: &mut Management<'_>) -> Result<Self, Failure> {
        let reply = management.send(HttpRequest::new(Method::GET, "/$ferrybus/limits")).await?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(UNKNOWN);
        }
        let body = &good(&reply, "cannot read the broker's limits")?.body;
        Ok(Self::read(&serde_json::from_slice(body).unwrap_or_default()))
    }

    fn read(told: &Value) -> Self {
        let profile = told["profile"].as_str().and_then(Profile::named);
        Self {
            profile: profile.unwrap_or(UNKNOWN.profile),
            max_message_bytes: told["max_message_bytes"].as_u64().unwrap_or(UNKNOWN.max_message_bytes),
        }
    }

    /// Whether the profile takes such an entity.
    pub(crate) fn check(&self, plan: &EntityPlan) -> Result<(), EntityError> {
        self.profile.settled(plan.kind, plan.settings.clone()).map(drop)
    }

    /// The entity as the broker will show it.
    pub(crate) fn settled(&self, plan: &EntityPlan) -> EntityPlan {
        let mut settled = plan.clone();
        if let Ok(settings) = self.profile.settled(plan.kind, plan.settings.clone()) {
            settled.settings = settings;
        }
        let own = &mut settled.settings.max_message_bytes;
        // As it is shown: in whole kilobytes.
        *own = own.map(|own| own.min((self.max_message_bytes >> 10).max(1) << 10));
        settled
    }
}

#[cfg(test)]
mod tests;
