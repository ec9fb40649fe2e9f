//! The text by which message ids are compared.
//!
//! Invariant: equal ids of one type have equal texts and different ones different texts. An id that a client writes as
//! a number or UUID equals the text that other clients write for it.

use std::fmt::Write as _;

use amqp_codec::raw::RawValue;

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
        return Some(grouped(uuid));
    }
    id.as_binary().map(|bytes| digits(bytes, &[]))
}

fn grouped(uuid: [u8; 16]) -> Box<str> {
    digits(&uuid, &[4, 6, 8, 10])
}

/// Hexadecimal digits, with a hyphen before the bytes at these places.
fn digits(bytes: &[u8], hyphens: &[usize]) -> Box<str> {
    let mut text = String::with_capacity(2 * bytes.len() + hyphens.len());
    for (place, byte) in bytes.iter().enumerate() {
        if hyphens.contains(&place) {
            text.push('-');
        }
        // Writing to a `String` does not fail.
        let _written = write!(text, "{byte:02x}");
    }
    text.into()
}

#[cfg(test)]
mod tests;
