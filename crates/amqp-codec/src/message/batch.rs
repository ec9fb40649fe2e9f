//! Batches: one transfer that carries many messages.
//!
//! Invariant: the messages come out in the order they were packed, as the bytes they were.

use bytes::Bytes;

use crate::sections::{BodyKind, Section, SectionError, Sections};
use crate::types::{Malformed, Reader, TypeKind, code};

/// The message-format of a batch of Azure Service Bus: every data section is an encoded message.
pub const BATCH_FORMAT: u32 = 0x8001_3700;

/// The messages of a batch, each a slice of `payload`. They are not looked into: each needs a scan
/// of its own.
pub fn batch_messages(payload: &Bytes) -> Result<Vec<Bytes>, SectionError> {
    let sections = Sections::scan(payload)?;
    if sections.body_kind != BodyKind::Data {
        return Err(SectionError::NotABatch);
    }
    let malformed = |problem| SectionError::Malformed { section: Section::Data, problem };
    let mut reader = Reader::new(sections.body.of(payload));
    let mut messages = Vec::new();
    while !reader.is_empty() {
        messages.push(payload.slice_ref(data(&mut reader).map_err(malformed)?));
    }
    Ok(messages)
}

/// The bytes of one data section.
fn data<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    reader.descriptor()?;
    match reader.byte()? {
        code::BINARY_8 => reader.sized8(),
        code::BINARY_32 => reader.sized32(),
        found => Err(Malformed::Unexpected { expected: TypeKind::Binary, found }),
    }
}
