//! Values that stay encoded: looked into where they lie, copied as they are.
//!
//! Looking something up in a map, or copying a correlation-id to a reply with its type, needs no
//! tree of values. These views read on demand. They are safe on any bytes: what is malformed reads
//! as `None`, and what has passed the [`guard`] is never malformed.
//!
//! Invariant: a view never reads outside of the value it was made for.

mod map;
mod scalar;

pub use map::{MapIter, MapView, RawMap};
pub use scalar::AnnotationValue;

use bytes::{BufMut, Bytes, BytesMut};

use crate::guard::{self, GuardError};
use crate::types::{Descriptor, Malformed, Reader, TypeKind, code};
use crate::value::{self, Value};

/// One encoded value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RawValue<'a>(&'a [u8]);

impl<'a> RawValue<'a> {
    /// The value at the front of `bytes`. Its size is checked, its contents are not.
    #[inline]
    pub fn first(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Reader::new(bytes).value().map(Self)
    }

    /// The next value of `reader`.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.value().map(Self)
    }

    /// The encoded bytes, constructor included.
    #[inline]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The value's type; `None` for a constructor without a meaning.
    pub fn kind(self) -> Option<TypeKind> {
        self.0.first().and_then(|&constructor| TypeKind::of(constructor))
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.0 == [code::NULL]
    }

    /// The text of a string or a symbol.
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.text_bytes()?).ok()
    }

    /// The bytes of a string or a symbol.
    #[inline]
    pub(crate) fn text_bytes(self) -> Option<&'a [u8]> {
        match self.0 {
            [code::STRING_8 | code::SYMBOL_8, _, text @ ..]
            | [code::STRING_32 | code::SYMBOL_32, _, _, _, _, text @ ..] => Some(text),
            _ => None,
        }
    }

    /// The text of a symbol.
    pub fn as_symbol(self) -> Option<&'a str> {
        if self.kind() == Some(TypeKind::Symbol) { self.as_str() } else { None }
    }

    /// The text of a string.
    pub fn as_string(self) -> Option<&'a str> {
        if self.kind() == Some(TypeKind::String) { self.as_str() } else { None }
    }

    /// The bytes of a binary.
    pub const fn as_binary(self) -> Option<&'a [u8]> {
        match self.0 {
            [code::BINARY_8, _, data @ ..] | [code::BINARY_32, _, _, _, _, data @ ..] => Some(data),
            _ => None,
        }
    }

    /// A boolean.
    pub const fn as_bool(self) -> Option<bool> {
        match self.0 {
            [code::TRUE] | [code::BOOLEAN, 1] => Some(true),
            [code::FALSE] | [code::BOOLEAN, 0] => Some(false),
            _ => None,
        }
    }

    /// An integer of any width and sign that fits.
    pub fn as_i64(self) -> Option<i64> {
        match self.0 {
            [code::LONG, bytes @ ..] => fixed(bytes).map(i64::from_be_bytes),
            [code::INT, bytes @ ..] => fixed(bytes).map(|it| i32::from_be_bytes(it).into()),
            [code::SHORT, bytes @ ..] => fixed(bytes).map(|it| i16::from_be_bytes(it).into()),
            [code::BYTE | code::SMALL_INT | code::SMALL_LONG, bytes @ ..] => {
                fixed(bytes).map(|it| i8::from_be_bytes(it).into())
            }
            _ => self.unsigned().and_then(|number| i64::try_from(number).ok()),
        }
    }

    /// An integer of any width and sign that fits.
    pub fn as_u64(self) -> Option<u64> {
        self.unsigned().or_else(|| self.as_i64().and_then(|number| u64::try_from(number).ok()))
    }

    /// An integer of an unsigned type.
    fn unsigned(self) -> Option<u64> {
        match self.0 {
            [code::ULONG, bytes @ ..] => fixed(bytes).map(u64::from_be_bytes),
            [code::UINT, bytes @ ..] => fixed(bytes).map(|it| u32::from_be_bytes(it).into()),
            [code::USHORT, bytes @ ..] => fixed(bytes).map(|it| u16::from_be_bytes(it).into()),
            [code::UBYTE | code::SMALL_UINT | code::SMALL_ULONG, byte] => Some(u64::from(*byte)),
            [code::UINT_0 | code::ULONG_0] => Some(0),
            _ => None,
        }
    }

    /// A float or a double.
    pub fn as_f64(self) -> Option<f64> {
        match self.0 {
            [code::DOUBLE, bytes @ ..] => fixed(bytes).map(f64::from_be_bytes),
            [code::FLOAT, bytes @ ..] => fixed(bytes).map(|it| f32::from_be_bytes(it).into()),
            _ => None,
        }
    }

    /// A uuid, in network order.
    pub fn as_uuid(self) -> Option<[u8; 16]> {
        match self.0 {
            [code::UUID, uuid @ ..] => fixed(uuid),
            _ => None,
        }
    }

    /// A timestamp, in milliseconds since 1970 UTC.
    pub fn as_timestamp(self) -> Option<i64> {
        match self.0 {
            [code::TIMESTAMP, bytes @ ..] => fixed(bytes).map(i64::from_be_bytes),
            _ => None,
        }
    }

    /// The descriptor and the value of a described value whose descriptor is a number or a name.
    pub fn described(self) -> Option<(Descriptor<'a>, Self)> {
        let mut reader = Reader::new(self.0);
        let descriptor = reader.descriptor().ok()?;
        Some((descriptor, Self(reader.value().ok()?)))
    }

    /// The value itself when it is not described, else what is inside. Clients differ in whether
    /// they describe filters; readers that do not care ask this.
    #[must_use]
    pub fn undescribed(self) -> Self {
        self.described().map_or(self, |(_, inner)| inner)
    }

    /// The entries of a map.
    pub fn as_map(self) -> Option<MapView<'a>> {
        MapView::new(self.0).ok()
    }

    /// The items of a list.
    pub fn as_list(self) -> Option<ListIter<'a>> {
        let fields = Reader::new(self.0).list().ok()?;
        Some(ListIter { left: fields.left(), items: fields.remaining() })
    }

    /// The number of items that a list or an array says to have. [`Self::to_items`] costs as much memory and work.
    pub fn item_count(self) -> Option<usize> {
        let count = match self.as_list() {
            Some(list) => list.left,
            None => value::array_parts(self.0)?.0,
        };
        usize::try_from(count).ok()
    }

    /// The items of a list or of an array, each as an encoded value of its own. `None` for other
    /// types, for arrays of described values, and for what the [`guard`] refuses.
    pub fn to_items(self) -> Option<Vec<Bytes>> {
        if let Some(list) = self.as_list() {
            return Some(list.map(|item| Bytes::copy_from_slice(item.bytes())).collect());
        }
        guard::check_whole_value(self.0).ok()?;
        array_items(self.0)
    }

    /// The value as a tree, after the guard has seen it.
    pub fn to_value(self) -> Result<Value, GuardError> {
        value::decode_value(self.0)
    }
}

/// Exactly `N` bytes.
fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// The items of a list.
#[derive(Clone, Debug)]
pub struct ListIter<'a> {
    left: u32,
    items: Reader<'a>,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = RawValue<'a>;

    fn next(&mut self) -> Option<RawValue<'a>> {
        self.left = self.left.checked_sub(1)?;
        RawValue::read(&mut self.items).ok()
    }
}

/// The elements of an array that the guard has passed, each with its own constructor.
fn array_items(array: &[u8]) -> Option<Vec<Bytes>> {
    let (count, constructor, mut elements) = value::array_parts(array)?;
    // A descriptor stands once in the array, however long it is: a copy for each element could take the square of its bytes.
    let &[constructor] = constructor else { return None };
    let mut items = Vec::new();
    let mut item = BytesMut::with_capacity(array.len());
    for _ in 0..count {
        let start = elements.rest();
        elements.skip_payload(constructor).ok()?;
        let len = start.len() - elements.rest().len();
        item.put_u8(constructor);
        item.extend_from_slice(start.get(..len)?);
        items.push(item.split().freeze());
    }
    Some(items)
}

#[cfg(test)]
mod tests;
