//! Appends values to a buffer, each in its shortest encoding.
//!
//! Invariant: what is written is one whole value that a [`Reader`](super::Reader) reads back.

use bytes::{BufMut, BytesMut};

use super::{Symbol, code};

/// A null.
#[inline]
pub fn write_null(out: &mut BytesMut) {
    out.put_u8(code::NULL);
}

/// `value` by `write`, or a null.
#[inline]
pub fn write_opt<T>(out: &mut BytesMut, value: Option<T>, write: impl FnOnce(&mut BytesMut, T)) {
    match value {
        Some(value) => write(out, value),
        None => write_null(out),
    }
}

/// A boolean.
#[inline]
pub fn write_bool(out: &mut BytesMut, value: bool) {
    out.put_u8(if value { code::TRUE } else { code::FALSE });
}

/// A ubyte.
#[inline]
pub fn write_ubyte(out: &mut BytesMut, value: u8) {
    out.extend_from_slice(&[code::UBYTE, value]);
}

/// A ushort.
#[inline]
pub fn write_ushort(out: &mut BytesMut, value: u16) {
    let [a, b] = value.to_be_bytes();
    out.extend_from_slice(&[code::USHORT, a, b]);
}

/// A uint.
#[inline]
pub fn write_uint(out: &mut BytesMut, value: u32) {
    match value.to_be_bytes() {
        [0, 0, 0, 0] => out.put_u8(code::UINT_0),
        [0, 0, 0, small] => out.extend_from_slice(&[code::SMALL_UINT, small]),
        [a, b, c, d] => out.extend_from_slice(&[code::UINT, a, b, c, d]),
    }
}

/// A ulong.
#[inline]
pub fn write_ulong(out: &mut BytesMut, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.put_u8(code::ULONG_0),
        Ok(small) => out.extend_from_slice(&[code::SMALL_ULONG, small]),
        Err(_) => write_fixed(out, code::ULONG, value.to_be_bytes()),
    }
}

/// A byte.
#[inline]
pub fn write_byte(out: &mut BytesMut, value: i8) {
    write_fixed(out, code::BYTE, value.to_be_bytes());
}

/// A short.
#[inline]
pub fn write_short(out: &mut BytesMut, value: i16) {
    write_fixed(out, code::SHORT, value.to_be_bytes());
}

/// An int.
#[inline]
pub fn write_int(out: &mut BytesMut, value: i32) {
    match i8::try_from(value) {
        Ok(small) => write_fixed(out, code::SMALL_INT, small.to_be_bytes()),
        Err(_) => write_fixed(out, code::INT, value.to_be_bytes()),
    }
}

/// A long.
#[inline]
pub fn write_long(out: &mut BytesMut, value: i64) {
    match i8::try_from(value) {
        Ok(small) => write_fixed(out, code::SMALL_LONG, small.to_be_bytes()),
        Err(_) => write_fixed(out, code::LONG, value.to_be_bytes()),
    }
}

/// A float.
pub fn write_float(out: &mut BytesMut, value: f32) {
    write_fixed(out, code::FLOAT, value.to_be_bytes());
}

/// A double.
pub fn write_double(out: &mut BytesMut, value: f64) {
    write_fixed(out, code::DOUBLE, value.to_be_bytes());
}

/// A timestamp, in milliseconds since 1970 UTC.
#[inline]
pub fn write_timestamp(out: &mut BytesMut, millis: i64) {
    write_fixed(out, code::TIMESTAMP, millis.to_be_bytes());
}

/// A uuid, in network order.
#[inline]
pub fn write_uuid(out: &mut BytesMut, uuid: [u8; 16]) {
    write_fixed(out, code::UUID, uuid);
}

/// A binary.
#[inline]
pub fn write_binary(out: &mut BytesMut, value: &[u8]) {
    write_sized(out, code::BINARY_8, code::BINARY_32, value);
}

/// A binary that consists of two pieces, of which a large one need not be copied to the other first.
pub fn write_binary_pieces(out: &mut BytesMut, first: &[u8], second: &[u8]) {
    write_size(out, code::BINARY_8, code::BINARY_32, first.len() + second.len());
    out.extend_from_slice(first);
    out.extend_from_slice(second);
}

/// A string.
#[inline]
pub fn write_str(out: &mut BytesMut, value: &str) {
    write_sized(out, code::STRING_8, code::STRING_32, value.as_bytes());
}

/// A symbol.
#[inline]
pub fn write_symbol(out: &mut BytesMut, value: &Symbol) {
    write_sized(out, code::SYMBOL_8, code::SYMBOL_32, value.as_str().as_bytes());
}

/// A field with `multiple="true"` of symbols: null when there are none, else an array, also of one.
pub fn write_symbols(out: &mut BytesMut, symbols: &[Symbol]) {
    if symbols.is_empty() {
        return write_null(out);
    }
    let wide = symbols.iter().any(|word| word.len() > 0xff);
    let element = if wide { code::SYMBOL_32 } else { code::SYMBOL_8 };
    write_counted(out, code::ARRAY_8, code::ARRAY_32, symbols.len(), |out| {
        out.put_u8(element);
        for word in symbols {
            if wide {
                out.put_u32(wire_len(word.len()));
            } else {
                out.put_u8(u8::try_from(word.len()).unwrap_or(u8::MAX));
            }
            out.extend_from_slice(word.as_bytes());
        }
    });
}

/// The descriptor of a described value, whose value must follow. Numbers up to 255 become
/// `00 53 xx`, the only form that every client reads.
#[inline]
pub fn write_descriptor(out: &mut BytesMut, number: u64) {
    if let Ok(small) = u8::try_from(number) {
        out.extend_from_slice(&[code::DESCRIBED, code::SMALL_ULONG, small]);
    } else {
        out.put_u8(code::DESCRIBED);
        write_ulong(out, number);
    }
}

/// A list of `count` items that `items` writes.
#[inline]
pub fn write_list(out: &mut BytesMut, count: usize, items: impl FnOnce(&mut BytesMut)) {
    write_counted(out, code::LIST_8, code::LIST_32, count, items);
}

/// A map of `count` items (keys and values, so twice its entries) that `items` writes.
#[inline]
pub fn write_map(out: &mut BytesMut, count: usize, items: impl FnOnce(&mut BytesMut)) {
    write_counted(out, code::MAP_8, code::MAP_32, count, items);
}

/// A constructor and its payload of fixed width.
#[inline]
pub(crate) fn write_fixed<const N: usize>(out: &mut BytesMut, constructor: u8, value: [u8; N]) {
    out.put_u8(constructor);
    out.extend_from_slice(&value);
}

#[inline]
fn write_sized(out: &mut BytesMut, short: u8, long: u8, value: &[u8]) {
    write_size(out, short, long, value.len());
    out.extend_from_slice(value);
}

#[inline]
fn write_size(out: &mut BytesMut, short: u8, long: u8, size: usize) {
    if let Ok(len) = u8::try_from(size) {
        out.extend_from_slice(&[short, len]);
    } else {
        out.put_u8(long);
        out.put_u32(wire_len(size));
    }
}

/// A list, map or array: constructor, size, count, contents. Written with sizes of one byte and
/// widened in the rare case that the contents turn out too long for that.
#[inline]
pub(crate) fn write_counted(
    out: &mut BytesMut,
    short: u8,
    long: u8,
    count: usize,
    contents: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    let short_count = u8::try_from(count).unwrap_or(u8::MAX);
    out.extend_from_slice(&[short, 0, short_count]);
    contents(out);
    let contents_len = out.len() - start - 3;
    match u8::try_from(contents_len + 1) {
        Ok(size) if count <= 0xff => {
            if let Some(place) = out.get_mut(start + 1) {
                *place = size;
            }
        }
        _ => widen(out, start, long, count, contents_len),
    }
}

/// Makes room for sizes of four bytes in front of contents that are already written.
#[cold]
fn widen(out: &mut BytesMut, start: usize, long: u8, count: usize, contents_len: usize) {
    out.put_bytes(0, 6);
    let contents = start + 3;
    out.copy_within(contents..contents + contents_len, contents + 6);
    let mut header = [long; 9];
    let (size_place, count_place) = header.split_at_mut(5);
    if let (Some(size), Some(count_place)) = (size_place.last_chunk_mut(), count_place.first_chunk_mut()) {
        *size = wire_len(contents_len + 4).to_be_bytes();
        *count_place = wire_len(count).to_be_bytes();
    }
    if let Some(place) = out.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
        *place = header;
    }
}

/// A length as the wire has it.
///
/// # Panics
/// Beyond 4 GiB. Frames and messages are bounded far below, so only our own bug gets there.
#[inline]
pub(crate) fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("frames and messages are bounded far below 4 GiB")
}
