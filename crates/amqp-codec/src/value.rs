//! Cold values as trees: management bodies, filters, property maps.
//!
//! The tree type is `serde_amqp`'s [`Value`]; reading and writing it is ours, because the library
//! recurses without bound, loses the encoding of arrays, and refuses descriptors it has no name
//! for.
//!
//! Invariant: nothing becomes a tree that the guard has not passed.

use serde_amqp::primitives::{Dec32, Dec64, Dec128, Symbol as ValueSymbol};
pub use serde_amqp::{
    Value,
    described::Described,
    descriptor::Descriptor,
    primitives::{Array, OrderedMap, Timestamp, Uuid},
};

mod encode;

pub use encode::write_value;

use crate::guard::{self, GuardError};
use crate::types::{self, Malformed, Reader, code};

/// The one value that `bytes` are, as a tree.
pub fn decode_value(bytes: &[u8]) -> Result<Value, GuardError> {
    guard::check_whole_value(bytes)?;
    let mut reader = Reader::new(bytes);
    read_value(&mut reader)
        .map_err(|problem| GuardError { offset: bytes.len() - reader.rest().len(), problem })
}

/// Reads a value that the guard has passed, which bounds the recursion.
fn read_value(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    let constructor = reader.byte()?;
    read_payload(reader, constructor)
}

fn read_payload(reader: &mut Reader<'_>, constructor: u8) -> Result<Value, Malformed> {
    Ok(match constructor {
        code::DESCRIBED => return read_described(reader),
        code::NULL => Value::Null,
        code::TRUE => Value::Bool(true),
        code::FALSE => Value::Bool(false),
        code::BOOLEAN => Value::Bool(reader.byte()? != 0),
        code::UBYTE => Value::Ubyte(reader.byte()?),
        code::USHORT => Value::Ushort(u16::from_be_bytes(reader.array()?)),
        code::UINT_0 => Value::Uint(0),
        code::SMALL_UINT => Value::Uint(reader.byte()?.into()),
        code::UINT => Value::Uint(u32::from_be_bytes(reader.array()?)),
        code::ULONG_0 => Value::Ulong(0),
        code::SMALL_ULONG => Value::Ulong(reader.byte()?.into()),
        code::ULONG => Value::Ulong(u64::from_be_bytes(reader.array()?)),
        code::BYTE => Value::Byte(i8::from_be_bytes(reader.array()?)),
        code::SHORT => Value::Short(i16::from_be_bytes(reader.array()?)),
        code::SMALL_INT => Value::Int(i8::from_be_bytes(reader.array()?).into()),
        code::INT => Value::Int(i32::from_be_bytes(reader.array()?)),
        code::SMALL_LONG => Value::Long(i8::from_be_bytes(reader.array()?).into()),
        code::LONG => Value::Long(i64::from_be_bytes(reader.array()?)),
        code::FLOAT => Value::from(f32::from_be_bytes(reader.array()?)),
        code::DOUBLE => Value::from(f64::from_be_bytes(reader.array()?)),
        code::DECIMAL32 => Value::Decimal32(Dec32::from(reader.array()?)),
        code::DECIMAL64 => Value::Decimal64(Dec64::from(reader.array()?)),
        code::DECIMAL128 => Value::Decimal128(Dec128::from(reader.array()?)),
        code::CHAR => {
            let scalar = u32::from_be_bytes(reader.array()?);
            Value::Char(char::from_u32(scalar).ok_or(Malformed::NotChar(scalar))?)
        }
        code::TIMESTAMP => Value::Timestamp(Timestamp::from(i64::from_be_bytes(reader.array()?))),
        code::UUID => Value::Uuid(Uuid::from(reader.array::<16>()?)),
        code::BINARY_8 | code::BINARY_32 => Value::Binary(sized(reader, constructor)?.to_vec().into()),
        code::STRING_8 | code::STRING_32 => Value::String(text(reader, constructor)?),
        code::SYMBOL_8 | code::SYMBOL_32 => Value::Symbol(ValueSymbol::from(text(reader, constructor)?)),
        _ => return read_compound(reader, constructor),
    })
}

fn read_described(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    let descriptor = match read_value(reader)? {
        Value::Ulong(number) => Descriptor::Code(number),
        Value::Symbol(name) => Descriptor::Name(name),
        _ => return Err(Malformed::UnexpectedDescriptor),
    };
    let value = read_value(reader)?;
    Ok(Value::Described(Box::new(Described { descriptor, value })))
}

fn read_compound(reader: &mut Reader<'_>, constructor: u8) -> Result<Value, Malformed> {
    let (count, mut items) = match constructor {
        code::LIST_0 => return Ok(Value::List(Vec::new())),
        code::LIST_8 | code::MAP_8 | code::ARRAY_8 => {
            let mut items = Reader::new(reader.sized8()?);
            (u32::from(items.byte()?), items)
        }
        code::LIST_32 | code::MAP_32 | code::ARRAY_32 => {
            let mut items = Reader::new(reader.sized32()?);
            (u32::from_be_bytes(items.array()?), items)
        }
        other => return Err(Malformed::UnknownConstructor(other)),
    };
    match constructor {
        code::LIST_8 | code::LIST_32 => {
            (0..count).map(|_| read_value(&mut items)).collect::<Result<_, _>>().map(Value::List)
        }
        code::MAP_8 | code::MAP_32 => {
            let mut map = OrderedMap::new();
            for _ in 0..count / 2 {
                let key = read_value(&mut items)?;
                map.insert(key, read_value(&mut items)?);
            }
            Ok(Value::Map(map))
        }
        _ => read_array(count, &mut items),
    }
}

fn read_array(count: u32, items: &mut Reader<'_>) -> Result<Value, Malformed> {
    let descriptor = if items.peek() == Some(code::DESCRIBED) {
        Some(match items.descriptor()? {
            types::Descriptor::Code(number) => Descriptor::Code(number),
            types::Descriptor::Name(name) => Descriptor::Name(ValueSymbol::from(name)),
        })
    } else {
        None
    };
    let constructor = items.byte()?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let value = read_payload(items, constructor)?;
        elements.push(match &descriptor {
            None => value,
            Some(descriptor) => {
                Value::Described(Box::new(Described { descriptor: descriptor.clone(), value }))
            }
        });
    }
    Ok(Value::Array(Array(elements)))
}

fn sized<'a>(reader: &mut Reader<'a>, constructor: u8) -> Result<&'a [u8], Malformed> {
    // Variable-width constructors with a length of one byte are 0xa?, the others 0xb?.
    if constructor < 0xb0 { reader.sized8() } else { reader.sized32() }
}

fn text(reader: &mut Reader<'_>, constructor: u8) -> Result<String, Malformed> {
    let bytes = sized(reader, constructor)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed::NotUtf8)
}

/// The parts of an encoded array: how many elements, the constructor that stands once for all of
/// them (with a descriptor in front, if any), and the elements.
pub(crate) fn array_parts(array: &[u8]) -> Option<(u32, &[u8], Reader<'_>)> {
    let mut reader = Reader::new(array);
    let (count, start) = match reader.byte().ok()? {
        code::ARRAY_8 => {
            let mut items = Reader::new(reader.sized8().ok()?);
            (u32::from(items.byte().ok()?), items)
        }
        code::ARRAY_32 => {
            let mut items = Reader::new(reader.sized32().ok()?);
            (u32::from_be_bytes(items.array().ok()?), items)
        }
        _ => return None,
    };
    let mut elements = start;
    if elements.peek() == Some(code::DESCRIBED) {
        elements.descriptor().ok()?;
    }
    elements.byte().ok()?;
    let constructor = start.rest().get(..start.rest().len() - elements.rest().len())?;
    Some((count, constructor, elements))
}

#[cfg(test)]
mod tests;
