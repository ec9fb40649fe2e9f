//! Maps that stay encoded.
//!
//! Invariant: a [`RawMap`] has passed the guard, so reading it cannot fail.

use bytes::{Bytes, BytesMut};

use super::{AnnotationValue, RawValue};
use crate::guard::{self, GuardError};
use crate::types::{self, Malformed, Reader, Symbol, TypeKind, code};
use crate::value::{self, Value};

/// An encoded map, borrowed. Entries are read in the order they were written.
#[derive(Clone, Copy, Debug)]
pub struct MapView<'a> {
    count: u32,
    items: &'a [u8],
}

impl<'a> MapView<'a> {
    /// A map without entries.
    pub const EMPTY: Self = Self { count: 0, items: &[] };

    /// The map at the front of `bytes`. Its size is checked, its entries are not.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (count, items) = Reader::new(bytes).map()?;
        Ok(Self { count, items })
    }

    /// The map of a section, after its descriptor; an empty slice is a map without entries.
    #[inline]
    pub fn of_section(section: &'a [u8]) -> Result<Self, Malformed> {
        if section.is_empty() {
            return Ok(Self::EMPTY);
        }
        let mut reader = Reader::new(section);
        reader.descriptor()?;
        Self::new(reader.rest())
    }

    /// Number of entries that it declares.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize / 2
    }

    /// Whether it declares no entries.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded entries without the map around them.
    #[inline]
    pub(crate) const fn items(&self) -> &'a [u8] {
        self.items
    }

    /// The value of the first entry whose key is the string or symbol `key`.
    #[inline]
    pub fn get(&self, key: &str) -> Option<RawValue<'a>> {
        self.iter().find(|(name, _)| name.text_bytes() == Some(key.as_bytes())).map(|(_, v)| v)
    }

    /// The entries. Ends early where they are malformed.
    #[inline]
    pub const fn iter(&self) -> MapIter<'a> {
        MapIter { left: self.len(), items: Reader::new(self.items) }
    }
}

impl<'a> IntoIterator for MapView<'a> {
    type Item = (RawValue<'a>, RawValue<'a>);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &MapView<'a> {
    type Item = (RawValue<'a>, RawValue<'a>);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

/// The entries of a map: key and value.
#[derive(Clone, Debug)]
pub struct MapIter<'a> {
    left: usize,
    items: Reader<'a>,
}

impl<'a> Iterator for MapIter<'a> {
    type Item = (RawValue<'a>, RawValue<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = RawValue::read(&mut self.items).ok()?;
        let value = RawValue::read(&mut self.items).ok()?;
        Some((key, value))
    }
}

/// An encoded map that has passed the guard, kept as bytes of its own.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct RawMap(Bytes);

impl RawMap {
    /// A map without entries.
    pub const fn empty() -> Self {
        Self(Bytes::from_static(&[code::MAP_8, 1, 0]))
    }

    /// Takes the bytes of exactly one map.
    pub fn new(bytes: Bytes) -> Result<Self, GuardError> {
        Self::check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Copies the bytes of exactly one map, so that they do not hold on to a larger buffer.
    pub fn copy_from_slice(bytes: &[u8]) -> Result<Self, GuardError> {
        Self::check(bytes)?;
        Ok(Self(Bytes::copy_from_slice(bytes)))
    }

    fn check(bytes: &[u8]) -> Result<(), GuardError> {
        match bytes.first() {
            None | Some(&(code::MAP_8 | code::MAP_32)) => guard::check_whole_value(bytes),
            Some(&found) => Err(GuardError {
                offset: 0,
                problem: Malformed::Unexpected { expected: TypeKind::Map, found },
            }),
        }
    }

    /// A map with symbols as keys: annotations, `properties` and `info` maps.
    pub fn with_symbol_keys(entries: &[(&str, AnnotationValue<'_>)]) -> Self {
        Self::build(entries.len(), |out| {
            for (key, value) in entries {
                write_symbol_key(out, key);
                value.write(out);
            }
        })
    }

    /// A map with strings as keys.
    pub fn with_string_keys(entries: &[(&str, AnnotationValue<'_>)]) -> Self {
        Self::build(entries.len(), |out| {
            for (key, value) in entries {
                types::write_str(out, key);
                value.write(out);
            }
        })
    }

    fn build(entries: usize, write: impl FnOnce(&mut BytesMut)) -> Self {
        let mut out = BytesMut::new();
        types::write_map(&mut out, entries * 2, write);
        Self(out.freeze())
    }

    /// Encodes a map; `None` for a value of another type.
    pub fn from_value(value: &Value) -> Option<Self> {
        if !matches!(value, Value::Map(_)) {
            return None;
        }
        let mut out = BytesMut::new();
        value::write_value(&mut out, value);
        Self::new(out.freeze()).ok()
    }

    /// The encoded map.
    pub const fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The entries, borrowed.
    pub fn view(&self) -> MapView<'_> {
        MapView::new(&self.0).unwrap_or(MapView::EMPTY)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// The value of the first entry whose key is the string or symbol `key`.
    pub fn get(&self, key: &str) -> Option<RawValue<'_>> {
        self.view().get(key)
    }

    /// The entries, in the order they were written.
    pub fn iter(&self) -> MapIter<'_> {
        self.view().iter()
    }

    /// The map as a tree.
    pub fn to_value(&self) -> Value {
        value::decode_value(&self.0).unwrap_or_default()
    }
}

impl<'a> IntoIterator for &'a RawMap {
    type Item = (RawValue<'a>, RawValue<'a>);
    type IntoIter = MapIter<'a>;

    fn into_iter(self) -> MapIter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for RawMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RawMap({:?})", self.to_value())
    }
}

/// A key of ours, as a symbol.
///
/// # Panics
/// If it is not ASCII, which only our own source can cause.
fn write_symbol_key(out: &mut BytesMut, key: &str) {
    match Symbol::new(key) {
        Ok(key) => types::write_symbol(out, &key),
        Err(_) => types::write_str(out, key),
    }
}
