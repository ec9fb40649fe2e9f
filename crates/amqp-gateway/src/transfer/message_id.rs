//! The text by which message ids are compared.
//!
//! Invariant: equal ids of one type have equal texts and different ones different texts. An id that a client writes as
//! a number or UUID equals the text that other clients write for it.

use amqp_codec::raw::RawValue;
use data_encoding::HEXLOWER;
use uuid::Uuid;

/// The canonical text of a message-id (messaging §3.2.4, §3.2.11 to 3.2.14): a string as it is, a number in decimal
/// digits, a UUID in five groups of lower-case hexadecimal digits, bytes as such digits without groups.
pub(crate) fn canonical(id: RawValue<'_>) -> Option<Box<str>> {
    if let Some(text) = id.as_str() {
        return Some(text.into());
    }
    if let Some(number) = id.as_u64() {
        return Some(number.to_string().into());
    }
    if let Some(uuid) = id.as_uuid() {
        return Some(Uuid::from_bytes(uuid).to_string().into());
    }
    id.as_binary().map(|bytes| HEXLOWER.encode(bytes).into())
}

#[cfg(test)]
mod tests;
