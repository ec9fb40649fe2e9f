//! `com.microsoft:receive-by-sequence-number`: deferred messages.
//!
//! Invariant: each message of the answer is whole, and has its lock token beside it; that of one taken for good is nil.

use amqp_codec::{
    raw::{RawMap, RawValue},
    types,
};
use broker_core::{Command, EntityPath, Fetched};
use bytes::BytesMut;

use super::body::{CommandBuilder, bad, bytes_of, one_entry, out_of_range, sequence_numbers_of};
use crate::{
    condition::Refusal,
    dialect::Dialect,
    transfer::delivery::{self, Recipient},
};

/// Most numbers of one request.
const NUMBERS_MAX: usize = 4096;

/// The command for a request. More than one message may have `bytes` bytes together.
pub(super) fn command(
    body: &RawMap,
    path: EntityPath,
    session: Option<Box<str>>,
    bytes: u64,
) -> Result<CommandBuilder, Refusal> {
    let sequences = sequence_numbers_of(body, (NUMBERS_MAX, "1 to 4096 numbers"))?;
    let mode = body.get("receiver-settle-mode").and_then(RawValue::as_i64);
    let delete = match mode.ok_or_else(|| bad("'receiver-settle-mode' must be a uint"))? {
        0 => true,
        1 => false,
        other => return Err(out_of_range("receiver-settle-mode", other, "0 and 1")),
    };
    Ok(Box::new(move |ticket| Command::ReceiveDeferred { path, session, sequences, delete, bytes, ticket }))
}

/// The body of the answer: `messages`, a list of maps with `message`, the whole encoded message, and `lock-token`.
pub(super) fn messages(fetched: &[Fetched], entity: &str) -> BytesMut {
    let id_base = crate::tracking::message_id_base(entity);
    let recipient = Recipient { dialect: Dialect::ServiceBus, id_base, in_answer: true, due: None };
    let mut scratch = BytesMut::new();
    one_entry("messages", bytes_of(fetched.iter().map(|it| &it.stored)), |out| {
        types::write_list(out, fetched.len(), |out| {
            for message in fetched {
                scratch.clear();
                let lock = message.lock.as_ref();
                let bare = delivery::write(&mut scratch, &message.stored, message.sequence, lock, &recipient);
                // The Rust SDK cannot read a message without a token, locked or not.
                let token = lock.map_or([0; 16], |lock| lock.token.0.to_be_bytes());
                types::write_map(out, 4, |out| {
                    types::write_str(out, "message");
                    types::write_binary_pieces(out, &scratch, &bare);
                    types::write_str(out, "lock-token");
                    types::write_uuid(out, token);
                });
            }
        });
    })
}
