//! `com.microsoft:batch-delete-messages`: the oldest messages go unseen. A purge asks until none is left.
//!
//! Invariant: the answer says how many are gone, and that is never more than was asked for.

use amqp_codec::{raw::RawMap, types};
use broker_core::{Command, EntityPath, Timestamp};
use bytes::BytesMut;

use super::body::{CommandBuilder, bad, count_of, one_entry};
use crate::condition::Refusal;

/// Most messages of one request, as in the service; a request for more deletes this many.
const COUNT_MAX: i64 = 4000;

/// The command for a request that came `now`.
pub(super) fn command(
    body: &RawMap,
    path: EntityPath,
    session: Option<Box<str>>,
    now: Timestamp,
) -> Result<CommandBuilder, Refusal> {
    let count = count_of(body, "message-count", "'message-count' must be an int", COUNT_MAX)?;
    let before = match body.get("enqueued-time-utc").filter(|time| !time.is_null()) {
        None => now,
        Some(time) => {
            let millis = time.as_timestamp().ok_or_else(|| bad("'enqueued-time-utc' must be a timestamp"))?;
            Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
        }
    };
    Ok(Box::new(move |ticket| Command::DeleteMessages { path, session, count, before, ticket }))
}

/// The body of the answer.
pub(super) fn count(count: u32) -> BytesMut {
    one_entry("message-count", 0, |out| types::write_int(out, i32::try_from(count).unwrap_or(i32::MAX)))
}
