//! `com.microsoft:renew-session-lock`, `get-session-state`, `set-session-state` and `get-message-sessions`.
//!
//! Invariant: whose session it is, the core decides; a state comes back byte for byte.

use amqp_codec::{
    raw::{RawMap, RawValue},
    types::{self, code},
};
use broker_core::{Command, EntityPath, Timestamp};
use bytes::{BufMut, Bytes, BytesMut};

use super::body::{CommandBuilder, bad, one_entry};
use crate::condition::Refusal;

/// `last-updated-time` from here on asks for the sessions with messages or state: the end of .NET's calendar, in
/// milliseconds since 1970, which clients round in different ways.
const ANY_TIME: i64 = 253_402_300_799_000;
const SESSION_NEEDED: &str =
    "'session-id' must be a string, or 'associated-link-name' the name of the session's receiver";
/// Most ids in one answer, in the core as well.
const TOP_MAX: i64 = 4_096;

/// The session of a request that cannot do without.
fn needed(session: Option<Box<str>>) -> Result<Box<str>, Refusal> {
    session.ok_or_else(|| bad(SESSION_NEEDED))
}

/// The session that the body of a request names, if it names one.
pub(super) fn session_id(body: &RawMap) -> Result<Option<Box<str>>, Refusal> {
    match body.get("session-id").filter(|id| !id.is_null()) {
        None => Ok(None),
        Some(id) => match id.as_str() {
            Some(id) => Ok(Some(id.into())),
            None => Err(bad("'session-id' must be a string")),
        },
    }
}

/// The command of `renew-session-lock`.
pub(super) fn renew(path: EntityPath, session: Option<Box<str>>) -> Result<CommandBuilder, Refusal> {
    let session = needed(session)?;
    Ok(Box::new(move |ticket| Command::RenewSession { path, session, ticket }))
}

/// The command of `get-session-state`. A browser of the older SDK for Java asks for the state of a session that it does not hold.
pub(super) fn get_state(
    path: EntityPath,
    session: Option<Box<str>>,
    looks_on: bool,
) -> Result<CommandBuilder, Refusal> {
    let session = needed(session)?;
    Ok(Box::new(move |ticket| Command::GetSessionState { path, session, looks_on, ticket }))
}

/// The command of `set-session-state`. Null, nothing, or no bytes clears the state: the Go SDK writes its `nil` as an
/// empty binary, and reads none back only from null.
pub(super) fn set_state(
    body: &RawMap,
    path: EntityPath,
    session: Option<Box<str>>,
) -> Result<CommandBuilder, Refusal> {
    let session = needed(session)?;
    let state = match body.get("session-state").filter(|state| !state.is_null()) {
        None => None,
        Some(state) => {
            let bytes = state.as_binary().ok_or_else(|| bad("'session-state' must be binary or null"))?;
            (!bytes.is_empty()).then(|| Bytes::copy_from_slice(bytes))
        }
    };
    Ok(Box::new(move |ticket| Command::SetSessionState { path, session, state, ticket }))
}

/// The command of `get-message-sessions`. The older SDK for Java names the last session of the page before.
pub(super) fn list(body: &RawMap, path: EntityPath) -> Result<CommandBuilder, Refusal> {
    let after = body.get("last-updated-time").and_then(RawValue::as_timestamp);
    let after = after.ok_or_else(|| bad("'last-updated-time' must be a timestamp"))?;
    let updated_after = (after < ANY_TIME).then(|| Timestamp::from_millis(u64::try_from(after).unwrap_or(0)));
    let last: Option<Box<str>> = match body.get("last-session-id").filter(|id| !id.is_null()) {
        None => None,
        Some(id) => Some(id.as_str().ok_or_else(|| bad("'last-session-id' must be a string"))?.into()),
    };
    let (skip, top) = (number(body, "skip")?, number(body, "top")?);
    let skip = u32::try_from(skip).unwrap_or(u32::MAX);
    let top = u32::try_from(top.min(TOP_MAX)).unwrap_or(0);
    Ok(Box::new(move |ticket| Command::ListSessions {
        path,
        updated_after,
        after: last.clone(),
        skip,
        top,
        ticket,
    }))
}

fn number(body: &RawMap, key: &'static str) -> Result<i64, Refusal> {
    let number = body.get(key).and_then(RawValue::as_i64).filter(|number| *number >= 0);
    number.ok_or_else(|| Refusal::BadRequest { what: format!("'{key}' must be an int of 0 at least").into() })
}

/// The answer to `renew-session-lock`.
pub(super) fn expiration(until: Timestamp) -> BytesMut {
    one_entry("expiration", 0, |out| {
        types::write_timestamp(out, i64::try_from(until.as_millis()).unwrap_or(i64::MAX));
    })
}

/// The answer to `get-session-state`.
pub(super) fn state(state: Option<&[u8]>) -> BytesMut {
    one_entry("session-state", 0, |out| types::write_opt(out, state, types::write_binary))
}

/// The answer to `get-message-sessions`: how many were passed over, and the ids as an array of strings. The key is
/// spelt as the protocol spells it.
pub(super) fn ids(skipped: u32, ids: &[Box<str>]) -> BytesMut {
    let mut out = BytesMut::new();
    types::write_map(&mut out, 4, |out| {
        types::write_str(out, "skip");
        types::write_int(out, i32::try_from(skipped).unwrap_or(i32::MAX));
        types::write_str(out, "sessions-ids");
        write_strings(out, ids);
    });
    out
}

/// An array of strings of any length.
fn write_strings(out: &mut BytesMut, texts: &[Box<str>]) {
    let bytes: usize = texts.iter().map(|text| 4 + text.len()).sum();
    out.put_u8(code::ARRAY_32);
    out.put_u32(u32::try_from(bytes + 5).unwrap_or(u32::MAX));
    out.put_u32(u32::try_from(texts.len()).unwrap_or(u32::MAX));
    out.put_u8(code::STRING_32);
    for text in texts {
        out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        out.extend_from_slice(text.as_bytes());
    }
}
