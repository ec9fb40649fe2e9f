//! `com.microsoft:peek-message`: look without touching.
//!
//! Invariant: each message shown is whole, but for its body where that was not wanted, with its sequence number, time and
//! state, and without a lock.

use amqp_codec::{
    raw::{RawMap, RawValue},
    sections::Sections,
    types,
};
use broker_core::{Command, EntityPath, Peeked, SequenceNumber};
use bytes::BytesMut;

use super::body::{CommandBuilder, bad, bytes_of, count_of, one_entry};
use crate::{
    condition::Refusal,
    dialect::Dialect,
    transfer::delivery::{self, Recipient},
};

const OMIT_BODY: &str = "omit-message-body";
/// Most messages of one answer.
const COUNT_MAX: i64 = 4096;

/// The command for a request. A negative first number means the first message.
pub(super) fn command(
    body: &RawMap,
    path: EntityPath,
    session: Option<Box<str>>,
    bytes: u64,
) -> Result<CommandBuilder, Refusal> {
    let from = body.get("from-sequence-number").and_then(RawValue::as_i64);
    let from = from.ok_or_else(|| bad("'from-sequence-number' must be a long"))?;
    let count = count_of(body, "message-count", "'message-count' must be an int", COUNT_MAX)?;
    if body.get(OMIT_BODY).is_some_and(|omit| omit.as_bool().is_none() && !omit.is_null()) {
        return Err(bad("'omit-message-body' must be a boolean"));
    }
    let from = SequenceNumber(u64::try_from(from).unwrap_or(0));
    Ok(Box::new(move |ticket| Command::Peek { path, session, from, count, bytes, ticket }))
}

/// Whether a request wants the messages without their bodies.
pub(super) fn omits_body(body: &RawMap) -> bool {
    body.get(OMIT_BODY).and_then(RawValue::as_bool) == Some(true)
}

/// The body of the answer: `messages`, a list of maps with `message`, the encoded message.
pub(super) fn messages(peeked: &[Peeked], entity: &str, with_body: bool) -> BytesMut {
    let id_base = crate::tracking::message_id_base(entity);
    let recipient = Recipient { dialect: Dialect::ServiceBus, id_base, in_answer: true, due: None };
    let mut scratch = BytesMut::new();
    let bytes = if with_body { bytes_of(peeked.iter().map(|it| &it.stored)) } else { 0 };
    one_entry("messages", bytes, |out| {
        types::write_list(out, peeked.len(), |out| {
            for message in peeked {
                scratch.clear();
                let recipient = Recipient { due: message.due, ..recipient };
                let bare = delivery::write(&mut scratch, &message.stored, message.sequence, None, &recipient);
                let mut bare = &bare[..];
                if !with_body {
                    scratch.extend_from_slice(bare);
                    drop_body(&mut scratch);
                    bare = &[];
                }
                types::write_map(out, 2, |out| {
                    types::write_str(out, "message");
                    types::write_binary_pieces(out, &scratch, bare);
                });
            }
        });
    })
}

/// Takes the body out of an encoded message; what stands behind it moves up.
fn drop_body(message: &mut BytesMut) {
    let Ok(sections) = Sections::scan(message) else { return };
    let body = sections.body.range();
    if body.is_empty() {
        return;
    }
    let behind = message.split_off(body.end);
    message.truncate(body.start);
    message.unsplit(behind);
}
