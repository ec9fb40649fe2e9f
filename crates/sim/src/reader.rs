//! What a client reads from a delivered message.
//!
//! Invariant: the body is compared byte for byte with what was sent.

use amqp_codec::{
    message::MessageBuilder,
    raw::AnnotationValue,
    sections::{PropertyField, Sections},
    types::Reader,
};
use bytes::Bytes;

use crate::model::{Id, Session};

/// The session's name on the wire.
pub(crate) fn session_name(session: Session) -> String {
    format!("s{session}")
}

/// The message named `id`, with a number for rules to look at, its session and a body of `length` bytes besides.
pub(crate) fn write(id: Id, number: u64, session: Session, length: u64) -> Bytes {
    let small = u32::try_from(number).unwrap_or(0);
    MessageBuilder::new()
        .message_id(&id.to_string())
        .subject(&format!("n{number}"))
        .property(PropertyField::GroupId, AnnotationValue::Str(&session_name(session)))
        .application_property("number", AnnotationValue::Uint(small))
        .data(&body(id, length))
        .build()
}

fn body(id: Id, length: u64) -> Vec<u8> {
    let mut body = Vec::with_capacity(16);
    body.extend_from_slice(&id.to_be_bytes());
    body.extend_from_slice(&length.to_be_bytes());
    body.extend((0..length).map(|place| (id.wrapping_mul(31).wrapping_add(place)).to_le_bytes()[0]));
    body
}

/// What matters of a delivered message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) id: Id,
    pub(crate) sequence: u64,
    pub(crate) delivery_count: u32,
    /// Never handed out before; told to plain clients only.
    pub(crate) first_acquirer: bool,
    pub(crate) locked_until: Option<u64>,
}

/// Reads it back; `Err` says what is wrong with it.
pub(crate) fn read(payload: &[u8]) -> Result<Read, String> {
    let sections = Sections::scan(payload).map_err(|error| error.to_string())?;
    let header = sections.read_header(payload).map_err(|error| format!("{error:?}"))?;
    let annotations = sections.message_annotations_view(payload);
    let number = |name| {
        annotations
            .get(name)
            .and_then(|value| value.as_i64().or_else(|| value.as_timestamp()))
            .and_then(|n| u64::try_from(n).ok())
    };
    let content = content(sections.body.of(payload)).ok_or("there is no data section")?;
    let (id, rest) = content.split_first_chunk::<8>().ok_or("the body is cut short")?;
    let (length, _) = rest.split_first_chunk::<8>().ok_or("the body is cut short")?;
    let (id, length) = (u64::from_be_bytes(*id), u64::from_be_bytes(*length));
    if length > 1 << 20 || content != body(id, length) {
        return Err(format!("the body of message {id} is not what was sent"));
    }
    Ok(Read {
        id,
        sequence: number("x-opt-sequence-number").ok_or("there is no sequence number")?,
        delivery_count: header.delivery_count,
        first_acquirer: header.first_acquirer,
        locked_until: number("x-opt-locked-until"),
    })
}

/// The bytes in the one data section.
fn content(section: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(section);
    reader.descriptor().ok()?;
    match reader.byte().ok()? {
        0xa0 => reader.sized8().ok(),
        0xb0 => reader.sized32().ok(),
        _ => None,
    }
}
