//! Sessions on the wire: the session that an attach asks for, and the answer that names the session that was locked.
//!
//! Invariant: the answer repeats the filter in the encoding in which it came: the key as a symbol or a string, the value
//! described or bare. go-amqp reads a described filter only where it has sent one, and fails its whole connection on
//! anything else. The end of the lock is told in ticks.

use amqp_codec::{
    performative::{Attach, Source},
    raw::{AnnotationValue, RawMap, RawValue},
    types::write_map,
};
use broker_core::{SessionGrant, SessionWanted, Timestamp};
use bytes::BytesMut;
use std::time::Duration;

use crate::condition::Refusal;

const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// Several receivers on one session: none of them would be told that it is not alone, so it is declined.
const NON_EXCLUSIVE: &str = "com.microsoft:non-exclusive-session-filter:list";
const PEEK_MODE: &str = "com.microsoft:peek-mode";
const TIMEOUT: &str = "com.microsoft:timeout";
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// Default wait for any free session.
const PATIENCE: Duration = Duration::from_secs(60);
/// A wait for any session ends earlier than asked by so much at most, and by this part of a short wait. SDKs
/// run a timer of their own for the time that they ask for; where it ends first they close the link and try again.
const ANSWER_AHEAD: Duration = Duration::from_millis(100);
const ANSWER_AHEAD_PART: u32 = 10;
/// Ticks of .NET's calendar at the beginning of 1970: 100 ns each, since the year 1.
const TICKS_1970: i64 = 621_355_968_000_000_000;

/// Whether an attach asks to look on only: its link takes no lock and no message, and its requests peek, as the
/// `browseable` session of the older SDK for Java does.
pub(crate) fn only_looks_on(attach: &Attach) -> bool {
    let mode = attach.properties.as_ref().and_then(|properties| properties.get(PEEK_MODE));
    mode.and_then(RawValue::as_bool) == Some(true)
}

/// The session that an attach asks for. Clients differ in whether they describe the filter.
pub(crate) fn requested(attach: &Attach) -> Result<Option<SessionWanted>, Refusal> {
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

/// Wait of an attach for any session: a little less than it asks for, so that the answer is there in time.
fn patience(attach: &Attach) -> Duration {
    let timeout = attach.properties.as_ref().and_then(|properties| properties.get(TIMEOUT));
    timeout.and_then(RawValue::as_u64).map(Duration::from_millis).map_or(PATIENCE, answered_in_time)
}

/// Time after which a client that gives up after `asked` is answered.
fn answered_in_time(asked: Duration) -> Duration {
    asked.saturating_sub(ANSWER_AHEAD.min(asked / ANSWER_AHEAD_PART))
}

/// The source of an attach, its filter reduced to the one that names the session.
pub(crate) fn with_session(source: Source, id: &str) -> Source {
    let asked = source
        .filter
        .as_ref()
        .and_then(|filter| filter.iter().find(|(key, _)| key.as_str() == Some(SESSION_FILTER)));
    let filter = asked.and_then(|(key, value)| {
        let mut filter = BytesMut::new();
        write_map(&mut filter, 2, |out| {
            out.extend_from_slice(key.bytes());
            out.extend_from_slice(descriptor(value));
            AnnotationValue::Str(id).write(out);
        });
        RawMap::new(filter.freeze()).ok()
    });
    source.with_filter(filter)
}

/// The bytes in front of the value inside a described value: the described-type constructor and the descriptor
/// (AMQP types 1.2). Empty for a bare value.
fn descriptor(value: RawValue<'_>) -> &[u8] {
    let length = value.bytes().len().saturating_sub(value.undescribed().bytes().len());
    value.bytes().get(..length).unwrap_or_default()
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

#[cfg(test)]
mod tests;
