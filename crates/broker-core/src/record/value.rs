//! Values of properties and of rules as bytes.
//!
//! Invariant: decoding what was encoded gives the same value.

use broker_filter::{NumberType, Value, Written};

use super::reader::Reader;
use crate::RecordError;

mod tag {
    pub(super) const NULL: u8 = 0;
    pub(super) const BOOL: u8 = 1;
    pub(super) const INT: u8 = 2;
    pub(super) const DOUBLE: u8 = 3;
    pub(super) const TEXT: u8 = 4;
    pub(super) const TIMESTAMP: u8 = 5;
    pub(super) const DURATION: u8 = 6;
    pub(super) const UUID: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    /// Of a rule only.
    pub(super) const WRITTEN_TIMESTAMP: u8 = 9;
    /// Of a rule only.
    pub(super) const WRITTEN_NUMBER: u8 = 10;
}

/// Appends a value: a tag, then its bytes.
pub(super) fn put_value(bytes: &mut Vec<u8>, value: &Value) {
    let mut put = |tag: u8, value: &[u8]| {
        bytes.push(tag);
        bytes.extend_from_slice(value);
    };
    match value {
        Value::Null => put(tag::NULL, &[]),
        Value::Bool(value) => put(tag::BOOL, &[u8::from(*value)]),
        Value::Int(value) => put(tag::INT, &value.to_le_bytes()),
        Value::Double(value) => put(tag::DOUBLE, &value.to_bits().to_le_bytes()),
        Value::Timestamp(value) => put(tag::TIMESTAMP, &value.to_le_bytes()),
        Value::Duration(value) => put(tag::DURATION, &value.to_le_bytes()),
        Value::Uuid(value) => put(tag::UUID, value),
        Value::Text(text) => {
            bytes.push(tag::TEXT);
            put_long(bytes, text.as_bytes());
        }
        Value::Binary(data) => {
            bytes.push(tag::BINARY);
            put_long(bytes, data);
        }
    }
}

/// Appends a value of a rule, with how it was written, which is kept of times and numbers only.
pub(super) fn put_written(bytes: &mut Vec<u8>, value: &Value, written: Option<&Written>) {
    match (value, written) {
        (Value::Timestamp(at), Some(Written::Time(text))) => {
            bytes.push(tag::WRITTEN_TIMESTAMP);
            bytes.extend_from_slice(&at.to_le_bytes());
            put_long(bytes, text.as_bytes());
        }
        (Value::Int(_) | Value::Double(_), Some(Written::Number(kind))) => {
            bytes.extend_from_slice(&[tag::WRITTEN_NUMBER, number_tag(*kind)]);
            put_value(bytes, value);
        }
        _ => put_value(bytes, value),
    }
}

/// The byte of a type: its place among all.
fn number_tag(kind: NumberType) -> u8 {
    let place = NumberType::ALL.iter().position(|other| *other == kind).unwrap_or_default();
    u8::try_from(place).unwrap_or_default()
}

/// Appends bytes of any length: four bytes of length, then they.
pub(super) fn put_long(bytes: &mut Vec<u8>, value: &[u8]) {
    let length = u32::try_from(value.len()).expect("properties and rules are limited to far less than 4 GiB");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(value);
}

/// Takes what `put_long` wrote.
pub(super) fn take_long<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<&'a [u8], RecordError> {
    let length = reader.u32(field)?;
    reader.bytes(length as usize, field)
}

/// Takes what `put_long` wrote of a text.
pub(super) fn take_text(reader: &mut Reader<'_>, field: &'static str) -> Result<Box<str>, RecordError> {
    let text = std::str::from_utf8(take_long(reader, field)?);
    text.map(Box::from).map_err(|_| RecordError::Text { field })
}

/// Takes what `put_value` wrote.
pub(super) fn take_value(reader: &mut Reader<'_>) -> Result<Value, RecordError> {
    let tag = reader.u8(FIELD)?;
    take_tagged(reader, tag)
}

/// Takes what `put_written` wrote.
pub(super) fn take_written(reader: &mut Reader<'_>) -> Result<(Value, Option<Written>), RecordError> {
    match reader.u8(FIELD)? {
        tag::WRITTEN_TIMESTAMP => {
            let at = signed(reader.u64(FIELD)?);
            Ok((Value::Timestamp(at), Some(Written::Time(take_text(reader, FIELD)?))))
        }
        tag::WRITTEN_NUMBER => {
            let tag = reader.u8("number type")?;
            let bad = RecordError::Value { field: "number type", value: u64::from(tag) };
            let kind = *NumberType::ALL.get(usize::from(tag)).ok_or(bad)?;
            Ok((take_value(reader)?, Some(Written::Number(kind))))
        }
        tag => Ok((take_tagged(reader, tag)?, None)),
    }
}

const FIELD: &str = "value";

const fn signed(number: u64) -> i64 {
    i64::from_le_bytes(number.to_le_bytes())
}

fn take_tagged(reader: &mut Reader<'_>, tag: u8) -> Result<Value, RecordError> {
    Ok(match tag {
        tag::NULL => Value::Null,
        tag::BOOL => match reader.u8(FIELD)? {
            0 => Value::Bool(false),
            1 => Value::Bool(true),
            other => return Err(RecordError::Value { field: "boolean", value: u64::from(other) }),
        },
        tag::INT => Value::Int(signed(reader.u64(FIELD)?)),
        tag::DOUBLE => Value::Double(f64::from_bits(reader.u64(FIELD)?)),
        tag::TIMESTAMP => Value::Timestamp(signed(reader.u64(FIELD)?)),
        tag::DURATION => Value::Duration(signed(reader.u64(FIELD)?)),
        tag::UUID => {
            let bytes = reader.bytes(16, FIELD)?;
            Value::Uuid(bytes.try_into().map_err(|_| RecordError::Short { field: FIELD })?)
        }
        tag::TEXT => Value::Text(take_text(reader, FIELD)?),
        tag::BINARY => Value::Binary(take_long(reader, FIELD)?.into()),
        other => return Err(RecordError::Value { field: "value tag", value: u64::from(other) }),
    })
}
