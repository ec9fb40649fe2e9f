//! `com.microsoft:schedule-message` and `com.microsoft:cancel-scheduled-message`.
//!
//! Invariant: the answer to a schedule has one number for each message of the request, in its order.

use amqp_codec::{
    raw::{RawMap, RawValue},
    types::code,
};
use broker_core::{Command, EntityPath, Message, SequenceNumber};
use bytes::{Bytes, BytesMut};

use super::body::{CommandBuilder, ITEMS_MAX, bad, one_array, sequence_numbers_of};
use crate::{
    condition::Refusal,
    tracking::Tracking,
    transfer::message_id,
    transfer::message_limits,
    transfer::message_parse::{self, ParseOptions},
};

const NO_MESSAGES: &str = "'messages' must be a list of maps";

/// The command of `schedule-message`, for at most `limit` messages.
pub(super) fn command(
    body: &RawMap,
    path: EntityPath,
    options: ParseOptions,
    limit: usize,
    ids: &mut Tracking,
) -> Result<CommandBuilder, Refusal> {
    let list = body.get("messages").ok_or_else(|| bad(NO_MESSAGES))?;
    let count = list.item_count().ok_or_else(|| bad(NO_MESSAGES))?;
    if count == 0 || count > limit {
        return Err(Refusal::BatchLength { messages: count, limit });
    }
    let items = list.to_items().ok_or_else(|| bad(NO_MESSAGES))?;
    let messages: Result<Vec<_>, _> = items.iter().map(|item| message(item, options, ids)).collect();
    let messages = messages?;
    Ok(Box::new(move |ticket| Command::Schedule { path, messages, ticket }))
}

/// One message: `message`, its sections, and `message-id`, which counts where the sections have none.
fn message(item: &Bytes, options: ParseOptions, ids: &mut Tracking) -> Result<Message, Refusal> {
    let map = RawValue::first(item).ok().and_then(RawValue::as_map);
    let map = map.ok_or_else(|| bad(NO_MESSAGES))?;
    let sections = map.get("message").and_then(RawValue::as_binary);
    let sections = sections.ok_or_else(|| bad("'message' must be a binary"))?;
    let id = map.get("message-id").filter(|id| !id.is_null());
    message_limits::id("message-id", id)?;
    let text = id.and_then(message_id::canonical);
    if id.is_some() && text.is_none() {
        return Err(bad("'message-id' must be a string, ulong, uuid, binary or null"));
    }
    message_parse::message_or(Bytes::copy_from_slice(sections), options, text.as_deref(), ids)
}

/// The command of `cancel-scheduled-message`.
pub(super) fn cancel(body: &RawMap, path: EntityPath) -> Result<CommandBuilder, Refusal> {
    let sequences = sequence_numbers_of(body, (ITEMS_MAX, "1 to 65536 numbers"))?;
    Ok(Box::new(move |ticket| Command::CancelScheduled { path, sequences, ticket }))
}

/// The answer to a schedule: `sequence-numbers`, an array of long.
pub(super) fn sequence_numbers(sequences: &[SequenceNumber]) -> BytesMut {
    let numbers = sequences.iter().map(|sequence| i64::try_from(sequence.0).unwrap_or(i64::MAX));
    one_array("sequence-numbers", code::LONG, numbers)
}
