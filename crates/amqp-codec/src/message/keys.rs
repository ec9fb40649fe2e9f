//! Keys of annotations and of the footer, which are symbols (AMQP messaging 3.2.10).
//!
//! Senders that use a map of their language as it is write strings; a client that reads its keys as symbols alone, as
//! the Java SDK for Service Bus does, ends its receiver on such a message.
//!
//! Invariant: the values of the map, and its keys that are symbols already, come out as the bytes they were.

use bytes::{BufMut, Bytes, BytesMut};

use crate::raw::{MapView, RawValue};
use crate::sections::{Section, SectionError};
use crate::types::{TypeKind, code, wire_len, write_counted};

/// The section with symbols as keys; `None` where all keys are symbols already, or where there is no section. Keys that
/// are no text, which the specification reserves, are left out with their values.
///
/// # Errors
/// If `section` (descriptor included) is no map with whole entries.
pub fn with_symbol_keys(section: Section, bytes: &[u8]) -> Result<Option<Bytes>, SectionError> {
    let malformed = |problem| SectionError::Malformed { section, problem };
    let map = MapView::of_section(bytes).map_err(malformed)?;
    if map.iter().all(|(key, _)| key.kind() == Some(TypeKind::Symbol)) {
        return Ok(None);
    }
    let named = || map.iter().filter_map(|(key, value)| Some((key.text_bytes()?, value)));
    let mut out = BytesMut::with_capacity(bytes.len() + 8);
    out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, section.code()]);
    write_counted(&mut out, code::MAP_8, code::MAP_32, named().count() * 2, |out| {
        for (key, value) in named() {
            write_entry(out, key, value);
        }
    });
    Ok(Some(out.freeze()))
}

fn write_entry(out: &mut BytesMut, key: &[u8], value: RawValue<'_>) {
    if let Ok(length) = u8::try_from(key.len()) {
        out.put_slice(&[code::SYMBOL_8, length]);
    } else {
        out.put_u8(code::SYMBOL_32);
        out.put_u32(wire_len(key.len()));
    }
    out.put_slice(key);
    out.put_slice(value.bytes());
}

#[cfg(test)]
mod tests;
