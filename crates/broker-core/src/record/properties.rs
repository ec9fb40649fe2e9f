//! Broker-added properties as bytes.
//!
//! Invariant: decoding what was encoded gives the same properties in the same order.

use bytes::Bytes;

use super::{
    reader::Reader,
    value::{put_value, take_value},
};
use crate::{Properties, PropertyValue, RecordError};

const TEXT: u8 = 0;
const ENCODED: u8 = 1;
const VALUE: u8 = 2;
const REMOVED: u8 = 3;

/// Empty for no properties at all.
pub(crate) fn encode_properties(properties: &Properties) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (key, value) in &properties.0 {
        let mut own = Vec::new();
        let (tag, value) = match value {
            PropertyValue::Text(text) => (TEXT, text.as_bytes()),
            PropertyValue::Encoded(encoded) => (ENCODED, &encoded[..]),
            PropertyValue::Removed => (REMOVED, &own[..]),
            PropertyValue::Value(value) => {
                put_value(&mut own, value);
                (VALUE, &own[..])
            }
        };
        put_length(&mut bytes, key.len());
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(tag);
        put_length(&mut bytes, value.len());
        bytes.extend_from_slice(value);
    }
    bytes
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("properties are limited to far less than 4 GiB");
    bytes.extend_from_slice(&length.to_le_bytes());
}

pub(crate) fn decode_properties(bytes: &Bytes) -> Result<Properties, RecordError> {
    let mut reader = Reader::new(bytes);
    let mut properties = Vec::new();
    while !reader.rest().is_empty() {
        let length = reader.u32("key length")? as usize;
        let key = reader.text(length, "key")?.into();
        let tag = reader.u8("value tag")?;
        let length = reader.u32("value length")? as usize;
        let value = match tag {
            TEXT => PropertyValue::Text(reader.text(length, "value")?.into()),
            ENCODED => PropertyValue::Encoded(bytes.slice_ref(reader.bytes(length, "value")?)),
            VALUE => PropertyValue::Value(take_whole_value(reader.bytes(length, "value")?)?),
            REMOVED if length == 0 => PropertyValue::Removed,
            _ => return Err(RecordError::Value { field: "value tag", value: u64::from(tag) }),
        };
        properties.push((key, value));
    }
    Ok(Properties(properties.into()))
}

fn take_whole_value(bytes: &[u8]) -> Result<broker_filter::Value, RecordError> {
    let mut reader = Reader::new(bytes);
    let value = take_value(&mut reader)?;
    let rest = reader.rest().len();
    if rest == 0 { Ok(value) } else { Err(RecordError::Value { field: "value length", value: rest as u64 }) }
}
