//! Writes trees of values.
//!
//! Invariant: what is written passes the guard and reads back as the same tree, as long as the
//! elements of each array are of one type.

use bytes::{BufMut, BytesMut};
use serde_amqp::primitives::{Array, Symbol as ValueSymbol};

use super::{Descriptor, Value};
use crate::types::{self, code};

/// Appends a tree, each value in its shortest encoding. The elements of an AMQP array are of one
/// type; an array whose elements are not is written as a list.
pub fn write_value(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Described(described) => {
            out.put_u8(code::DESCRIBED);
            write_value_descriptor(out, &described.descriptor);
            write_value(out, &described.value);
        }
        Value::Bool(value) => types::write_bool(out, *value),
        Value::Uint(value) => types::write_uint(out, *value),
        Value::Ulong(value) => types::write_ulong(out, *value),
        Value::Int(value) => types::write_int(out, *value),
        Value::Long(value) => types::write_long(out, *value),
        Value::String(value) => types::write_str(out, value),
        Value::Binary(value) => types::write_binary(out, value),
        Value::Symbol(value) => write_value_symbol(out, value),
        Value::List(items) if items.is_empty() => out.put_u8(code::LIST_0),
        Value::List(items) => {
            types::write_list(out, items.len(), |out| write_values(out, items));
        }
        Value::Map(map) => types::write_map(out, map.len() * 2, |out| write_entries(out, value)),
        Value::Array(Array(items)) if is_uniform(items) => {
            types::write_counted(out, code::ARRAY_8, code::ARRAY_32, items.len(), |out| {
                write_elements(out, items);
            });
        }
        Value::Array(Array(items)) => {
            types::write_list(out, items.len(), |out| write_values(out, items));
        }
        fixed => {
            out.put_u8(widest(fixed));
            write_payload(out, fixed);
        }
    }
}

fn write_value_descriptor(out: &mut BytesMut, descriptor: &Descriptor) {
    match descriptor {
        Descriptor::Code(number) => types::write_ulong(out, *number),
        Descriptor::Name(name) => write_value_symbol(out, name),
    }
}

fn write_value_symbol(out: &mut BytesMut, name: &ValueSymbol) {
    match types::Symbol::new(name.as_str()) {
        Ok(word) => types::write_symbol(out, &word),
        // Only a tree that we built can hold such a thing. A string keeps the bytes readable.
        Err(_) => types::write_str(out, name.as_str()),
    }
}

fn write_values(out: &mut BytesMut, items: &[Value]) {
    for item in items {
        write_value(out, item);
    }
}

fn write_entries(out: &mut BytesMut, map: &Value) {
    if let Value::Map(map) = map {
        for (key, value) in map {
            write_value(out, key);
            write_value(out, value);
        }
    }
}

/// The constructor under which every value of this type can be written.
fn widest(value: &Value) -> u8 {
    value.format_code()
}

/// A value and the descriptor in front of it, if it has one.
fn split(value: &Value) -> (Option<&Descriptor>, &Value) {
    match value {
        Value::Described(described) => (Some(&described.descriptor), &described.value),
        other => (None, other),
    }
}

/// Whether all elements can stand behind one constructor. An array element has at most one
/// descriptor, as the guard demands.
fn is_uniform(items: &[Value]) -> bool {
    let Some(first) = items.first() else { return true };
    let (descriptor, first) = split(first);
    items.iter().all(|item| {
        let (other, item) = split(item);
        other == descriptor
            && widest(item) == widest(first)
            && match item {
                Value::Described(_) => false,
                Value::Array(Array(inner)) => is_uniform(inner),
                _ => true,
            }
    })
}

/// The common constructor of an array's elements, then each element's payload.
fn write_elements(out: &mut BytesMut, items: &[Value]) {
    // An array has a constructor even without elements; which one does not matter then.
    let (descriptor, inner) = items.first().map_or((None, &Value::Null), split);
    if let Some(descriptor) = descriptor {
        out.put_u8(code::DESCRIBED);
        write_value_descriptor(out, descriptor);
    }
    out.put_u8(widest(inner));
    for item in items {
        write_payload(out, split(item).1);
    }
}

/// Appends a value without its constructor, which is the widest of its type.
fn write_payload(out: &mut BytesMut, value: &Value) {
    match value {
        // Null has no payload, and a described value never gets here (see `is_uniform`).
        Value::Null | Value::Described(_) => {}
        Value::Bool(value) => out.put_u8(u8::from(*value)),
        Value::Ubyte(value) => out.put_u8(*value),
        Value::Ushort(value) => out.put_u16(*value),
        Value::Uint(value) => out.put_u32(*value),
        Value::Ulong(value) => out.put_u64(*value),
        Value::Byte(value) => out.put_i8(*value),
        Value::Short(value) => out.put_i16(*value),
        Value::Int(value) => out.put_i32(*value),
        Value::Long(value) => out.put_i64(*value),
        Value::Float(value) => out.put_f32(value.into_inner()),
        Value::Double(value) => out.put_f64(value.into_inner()),
        Value::Decimal32(value) => out.extend_from_slice(value.as_inner()),
        Value::Decimal64(value) => out.extend_from_slice(value.as_inner()),
        Value::Decimal128(value) => out.extend_from_slice(value.as_inner()),
        Value::Char(value) => out.put_u32(u32::from(*value)),
        Value::Timestamp(value) => out.put_i64(value.milliseconds()),
        Value::Uuid(value) => out.extend_from_slice(value.as_inner()),
        Value::Binary(value) => put_sized(out, value),
        Value::String(value) => put_sized(out, value.as_bytes()),
        Value::Symbol(value) => put_sized(out, value.as_str().as_bytes()),
        Value::List(items) => put_wide(out, items.len(), |out| write_values(out, items)),
        Value::Map(map) => put_wide(out, map.len() * 2, |out| write_entries(out, value)),
        Value::Array(Array(items)) => put_wide(out, items.len(), |out| write_elements(out, items)),
    }
}

fn put_sized(out: &mut BytesMut, value: &[u8]) {
    out.put_u32(types::wire_len(value.len()));
    out.extend_from_slice(value);
}

/// Size and count of four bytes each, then the contents.
fn put_wide(out: &mut BytesMut, count: usize, contents: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(types::wire_len(count));
    contents(out);
    let size = types::wire_len(out.len() - start - 4);
    if let Some(place) = out.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
        *place = size.to_be_bytes();
    }
}
