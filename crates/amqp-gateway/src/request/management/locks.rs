//! `com.microsoft:renew-lock` and `com.microsoft:update-disposition`: what a lock token permits, from anywhere.
//!
//! Invariant: the tokens of one request are renewed or settled all together or not at all (the core sees to it).

use amqp_codec::{
    raw::{RawMap, RawValue},
    types::code,
};
use broker_core::{Command, EntityPath, Outcome, Properties, Timestamp};
use bytes::BytesMut;

use super::body::{CommandBuilder, bad, lock_tokens, one_array};
use crate::{condition::Refusal, dialect::Dialect, disposition::outcome};

/// The command of `renew-lock`.
pub(super) fn renew(body: &RawMap, path: EntityPath) -> Result<CommandBuilder, Refusal> {
    let tokens = lock_tokens(body)?;
    Ok(Box::new(move |ticket| Command::RenewLocks { path, tokens, ticket }))
}

/// The command of `update-disposition`.
pub(super) fn update(
    body: &RawMap,
    path: EntityPath,
    session: Option<Box<str>>,
) -> Result<CommandBuilder, Refusal> {
    let tokens = lock_tokens(body)?;
    let status = body.get("disposition-status").and_then(RawValue::as_str).unwrap_or_default();
    let outcome = match status {
        "completed" => Outcome::Complete,
        "abandoned" => Outcome::Abandon(to_modify(body)),
        // The protocol spells it with one `r`; be kind to who corrects it.
        "defered" | "deferred" => Outcome::Defer(to_modify(body)),
        "suspended" => Outcome::DeadLetter(dead_letter(body)),
        _ => return Err(bad("'disposition-status' must be completed, abandoned, defered or suspended")),
    };
    Ok(Box::new(move |ticket| Command::SettleByToken { path, session, tokens, outcome, ticket }))
}

/// `properties-to-modify`.
fn to_modify(body: &RawMap) -> Properties {
    let map = body.get("properties-to-modify").and_then(|map| RawMap::copy_from_slice(map.bytes()).ok());
    map.map(|map| outcome::properties(&map, Dialect::ServiceBus)).unwrap_or_default()
}

/// `properties-to-modify` with reason and description.
fn dead_letter(body: &RawMap) -> Properties {
    let mut properties = to_modify(body);
    let given = [("deadletter-reason", outcome::REASON), ("deadletter-description", outcome::DESCRIPTION)];
    for (key, name) in given {
        if let Some(text) = body.get(key).and_then(RawValue::as_str) {
            properties.0.retain(|(known, _)| &**known != name);
            properties.0.push(outcome::text(name, text));
        }
    }
    properties
}

/// The answer to `renew-lock`: `expirations`, an array of timestamps in the order of the tokens.
pub(super) fn expirations(until: &[Timestamp]) -> BytesMut {
    let ends = until.iter().map(|end| i64::try_from(end.as_millis()).unwrap_or(i64::MAX));
    one_array("expirations", code::TIMESTAMP, ends)
}
