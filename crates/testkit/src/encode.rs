//! Messages as bytes, section by section.
//!
//! Invariant: the bytes are valid AMQP unless the caller passes bytes that are not.

use amqp_codec::types::{write_binary, write_str, write_uint};
use bytes::{BufMut, Bytes, BytesMut};

/// A `data` section.
pub fn data(body: &[u8]) -> Bytes {
    section(0x75, |out| write_binary(out, body))
}

/// An `amqp-value` section around an already encoded value.
pub fn value(encoded: &[u8]) -> Bytes {
    section(0x77, |out| out.put_slice(encoded))
}

/// A `properties` section with a message-id and nothing else.
pub fn properties(message_id: &str) -> Bytes {
    section(0x73, |out| {
        let mut id = BytesMut::new();
        write_str(&mut id, message_id);
        out.put_u8(0xd0);
        out.put_u32(u32::try_from(id.len() + 4).unwrap_or(u32::MAX));
        out.put_u32(1);
        out.put_slice(&id);
    })
}

/// An `application-properties` section of unsigned numbers.
pub fn application_properties(entries: &[(&str, u32)]) -> Bytes {
    section(0x74, |out| {
        let mut map = BytesMut::new();
        for (key, number) in entries {
            write_str(&mut map, key);
            write_uint(&mut map, *number);
        }
        out.put_u8(0xd1);
        out.put_u32(u32::try_from(map.len() + 4).unwrap_or(u32::MAX));
        out.put_u32(u32::try_from(entries.len() * 2).unwrap_or(u32::MAX));
        out.put_slice(&map);
    })
}

/// Sections one after the other.
pub fn message(sections: &[Bytes]) -> Bytes {
    sections.concat().into()
}

fn section(code: u8, body: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    out.put_slice(&[0x00, 0x53, code]);
    body(&mut out);
    out.freeze()
}
