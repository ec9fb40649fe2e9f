//! Scalar values to write into annotations and properties.
//!
//! Invariant: a value is written with exactly the type that its variant names.

use bytes::{BufMut, BytesMut};

use super::RawValue;
use crate::types::{self, Symbol, code};

/// A value for an annotation, an application property or a property map, to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnnotationValue<'a> {
    /// `null`.
    Null,
    /// `boolean`.
    Bool(bool),
    /// `ubyte`.
    Ubyte(u8),
    /// `short`.
    Short(i16),
    /// `int`.
    Int(i32),
    /// `uint`.
    Uint(u32),
    /// `long`.
    Long(i64),
    /// `ulong`.
    Ulong(u64),
    /// `timestamp`: milliseconds since 1970 UTC.
    Timestamp(i64),
    /// `uuid`, in network order.
    Uuid([u8; 16]),
    /// `string`.
    Str(&'a str),
    /// `symbol`.
    Symbol(&'a Symbol),
    /// `binary`.
    Binary(&'a [u8]),
    /// Any value, already encoded.
    Raw(RawValue<'a>),
}

impl AnnotationValue<'_> {
    /// The most bytes that writing the value takes.
    #[inline]
    pub(crate) fn max_len(&self) -> usize {
        match self {
            Self::Str(text) => text.len() + 5,
            Self::Symbol(word) => word.len() + 5,
            Self::Binary(data) => data.len() + 5,
            Self::Raw(value) => value.bytes().len(),
            _ => 17,
        }
    }

    /// Appends the value. Longs and timestamps are written in full width, so that the size of what
    /// the broker adds does not depend on the numbers.
    #[inline]
    pub fn write(&self, out: &mut BytesMut) {
        match *self {
            Self::Null => out.put_u8(code::NULL),
            Self::Bool(value) => types::write_bool(out, value),
            Self::Ubyte(value) => types::write_ubyte(out, value),
            Self::Short(value) => types::write_short(out, value),
            Self::Int(value) => types::write_int(out, value),
            Self::Uint(value) => types::write_uint(out, value),
            Self::Long(value) => {
                types::write_fixed(out, code::LONG, value.to_be_bytes());
            }
            Self::Ulong(value) => types::write_ulong(out, value),
            Self::Timestamp(value) => {
                types::write_timestamp(out, value);
            }
            Self::Uuid(value) => types::write_uuid(out, value),
            Self::Str(value) => types::write_str(out, value),
            Self::Symbol(value) => types::write_symbol(out, value),
            Self::Binary(value) => types::write_binary(out, value),
            Self::Raw(value) => out.extend_from_slice(value.bytes()),
        }
    }
}
