//! Sessions on the wire: which one an attach asks for, and how the one that it got is told (wire document 4.3).
//!
//! Invariant: the answer to an attach names the session as a plain string and the end of its lock in ticks, whatever
//! form the question had.

use amqp_codec::{
    performative::{Attach, Source},
    raw::{AnnotationValue, RawMap, RawValue},
};
use broker_core::{LinkId, SessionGrant, SessionWanted, Timestamp};
use std::time::Duration;

use crate::{condition::Refusal, gateway::Gateway};

const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// Several receivers on one session: none of them would be told that it is not alone, so it is declined.
const NON_EXCLUSIVE: &str = "com.microsoft:non-exclusive-session-filter:list";
const TIMEOUT: &str = "com.microsoft:timeout";
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// How long a consumer waits for any session that does not say.
const PATIENCE: Duration = Duration::from_secs(60);
/// Ticks of .NET's calendar at the beginning of 1970: 100 ns each, since the year 1.
const TICKS_1970: i64 = 621_355_968_000_000_000;

/// The session that an attach asks for. Clients differ in whether they describe the filter.
pub(crate) fn wanted(attach: &Attach) -> Result<Option<SessionWanted>, Refusal> {
    let Some(filter) = attach.source.as_ref().and_then(|source| source.filter.as_ref()) else {
        return Ok(None);
    };
    if filter.get(NON_EXCLUSIVE).is_some() {
        return Err(Refusal::SharedSession);
    }
    let Some(value) = filter.get(SESSION_FILTER) else { return Ok(None) };
    let value = value.undescribed();
    if value.is_null() {
        return Ok(Some(SessionWanted::Next { patience: patience(attach) }));
    }
    let id = value.as_string().ok_or(Refusal::SessionFilter)?;
    Ok(Some(SessionWanted::Named(id.into())))
}

/// How long an attach waits for any session.
fn patience(attach: &Attach) -> Duration {
    let timeout = attach.properties.as_ref().and_then(|properties| properties.get(TIMEOUT));
    timeout.and_then(RawValue::as_u64).map_or(PATIENCE, Duration::from_millis)
}

/// A source whose filter names the session that was got.
pub(crate) fn with_session(source: Source, grant: &SessionGrant) -> Source {
    let filter = RawMap::with_symbol_keys(&[(SESSION_FILTER, AnnotationValue::Str(&grant.id))]);
    source.with_filter(Some(filter))
}

/// The properties of an attach that answers with a session.
pub(crate) fn properties(grant: &SessionGrant) -> RawMap {
    RawMap::with_symbol_keys(&[(LOCKED_UNTIL, AnnotationValue::Long(ticks(grant.until)))])
}

/// An instant as .NET counts it.
fn ticks(at: Timestamp) -> i64 {
    let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
    millis.saturating_mul(10_000).saturating_add(TICKS_1970)
}

impl Gateway {
    /// The lock of a consumer's session has ended.
    pub(crate) fn on_session_lost(&mut self, consumer: LinkId) {
        self.detach_link(consumer, &Refusal::Session(broker_core::SessionError::LockLost));
    }
}

#[cfg(test)]
mod tests;
