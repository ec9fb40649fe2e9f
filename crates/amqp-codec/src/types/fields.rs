//! Reads the fields of composites (types 1.4).
//!
//! Invariant: a field that is null and one that the list is too short to have read the same.

use super::read::{Reader, ascii, utf8};
use super::{DeliveryTag, Malformed, ReceiverSettleMode, SenderSettleMode, Symbol, TypeKind, code};

/// Reads the fields of a composite's list one by one. A field that is null, and one that the list
/// is too short to have, are both `None` (types 1.4).
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    reader: Reader<'a>,
    left: u32,
    index: u32,
}

impl<'a> FieldReader<'a> {
    /// Reads `left` fields from the front of `reader`.
    #[inline]
    pub(super) const fn new(reader: Reader<'a>, left: u32) -> Self {
        Self { reader, left, index: 0 }
    }

    /// Number of fields read so far. After an error: the number of the field that it is about, counted from 1.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Number of fields that the list still has.
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// The encoded fields that the list still has.
    pub const fn remaining(&self) -> Reader<'a> {
        self.reader
    }

    /// The constructor of the next field; `None` when it is absent or null.
    #[inline]
    fn constructor(&mut self) -> Result<Option<u8>, Malformed> {
        self.index += 1;
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match self.reader.byte()? {
            code::NULL => Ok(None),
            constructor => Ok(Some(constructor)),
        }
    }

    /// A boolean.
    #[inline]
    pub fn boolean(&mut self) -> Result<Option<bool>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            // Comparisons and no table of jumps: almost every boolean is one of these two.
            Some(constructor) if constructor == code::FALSE || constructor == code::TRUE => {
                Ok(Some(constructor == code::TRUE))
            }
            Some(constructor) => self.out_of_line(|it| it.boolean_octet(constructor)).map(Some),
        }
    }

    #[cold]
    #[inline(never)]
    fn boolean_octet(&mut self, constructor: u8) -> Result<bool, Malformed> {
        match constructor {
            code::BOOLEAN => match self.reader.byte()? {
                0 => Ok(false),
                1 => Ok(true),
                other => Err(Malformed::NotBoolean(other)),
            },
            found => Err(Malformed::Unexpected { expected: TypeKind::Boolean, found }),
        }
    }

    /// A boolean that counts as `false` when absent.
    #[inline]
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        Ok(self.boolean()?.unwrap_or(false))
    }

    /// A ubyte.
    #[inline]
    pub fn ubyte(&mut self) -> Result<Option<u8>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            Some(code::UBYTE) => self.reader.byte().map(Some),
            Some(found) => Err(Malformed::Unexpected { expected: TypeKind::Ubyte, found }),
        }
    }

    /// A ushort.
    #[inline]
    pub fn ushort(&mut self) -> Result<Option<u16>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            Some(code::USHORT) => Ok(Some(u16::from_be_bytes(self.reader.array()?))),
            Some(found) => Err(Malformed::Unexpected { expected: TypeKind::Ushort, found }),
        }
    }

    /// A uint.
    #[inline]
    pub fn uint(&mut self) -> Result<Option<u32>, Malformed> {
        let Some(constructor) = self.constructor()? else { return Ok(None) };
        // Comparisons and no table of jumps: a table is slower where the encodings mix.
        if constructor == code::SMALL_UINT {
            Ok(Some(u32::from(self.reader.byte()?)))
        } else if constructor == code::UINT {
            Ok(Some(u32::from_be_bytes(self.reader.array()?)))
        } else if constructor == code::UINT_0 {
            Ok(Some(0))
        } else {
            Err(Malformed::Unexpected { expected: TypeKind::Uint, found: constructor })
        }
    }

    /// A ulong.
    #[inline]
    pub fn ulong(&mut self) -> Result<Option<u64>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::SMALL_ULONG) => u64::from(self.reader.byte()?),
            Some(code::ULONG_0) => 0,
            Some(code::ULONG) => u64::from_be_bytes(self.reader.array()?),
            Some(found) => return Err(Malformed::Unexpected { expected: TypeKind::Ulong, found }),
        }))
    }

    /// A timestamp, in milliseconds since 1970 UTC.
    pub fn timestamp(&mut self) -> Result<Option<i64>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            Some(code::TIMESTAMP) => Ok(Some(i64::from_be_bytes(self.reader.array()?))),
            Some(found) => Err(Malformed::Unexpected { expected: TypeKind::Timestamp, found }),
        }
    }

    /// A binary.
    #[inline]
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::BINARY_8) => self.reader.sized8()?,
            Some(code::BINARY_32) => self.reader.sized32()?,
            Some(found) => return Err(Malformed::Unexpected { expected: TypeKind::Binary, found }),
        }))
    }

    /// A string.
    pub fn string(&mut self) -> Result<Option<&'a str>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::STRING_8) => utf8(self.reader.sized8()?)?,
            Some(code::STRING_32) => utf8(self.reader.sized32()?)?,
            Some(found) => return Err(Malformed::Unexpected { expected: TypeKind::String, found }),
        }))
    }

    /// A symbol.
    pub fn symbol(&mut self) -> Result<Option<&'a str>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::SYMBOL_8) => ascii(self.reader.sized8()?)?,
            Some(code::SYMBOL_32) => ascii(self.reader.sized32()?)?,
            Some(found) => return Err(Malformed::Unexpected { expected: TypeKind::Symbol, found }),
        }))
    }

    /// A symbol of the reader's own.
    pub fn owned_symbol(&mut self) -> Result<Option<Symbol>, Malformed> {
        Ok(self.symbol()?.and_then(|word| Symbol::new(word).ok()))
    }

    /// A field with `multiple="true"` of symbols: null, one symbol, or an array (types 1.4).
    pub fn symbols(&mut self) -> Result<Vec<Symbol>, Malformed> {
        let array = match self.constructor()? {
            None => return Ok(Vec::new()),
            Some(code::SYMBOL_8) => return Ok(vec![owned(self.reader.sized8()?)?]),
            Some(code::SYMBOL_32) => return Ok(vec![owned(self.reader.sized32()?)?]),
            Some(code::ARRAY_8) => {
                let body = self.reader.sized8()?;
                body.split_first().map(|(&count, items)| (u32::from(count), items))
            }
            Some(code::ARRAY_32) => {
                let body = self.reader.sized32()?;
                body.split_first_chunk().map(|(&count, items)| (u32::from_be_bytes(count), items))
            }
            Some(found) => return Err(Malformed::Unexpected { expected: TypeKind::Symbol, found }),
        };
        let (count, items) = array.ok_or(Malformed::SizeMismatch)?;
        read_symbols(count, Reader::new(items))
    }

    /// A delivery-tag.
    #[inline]
    pub fn delivery_tag(&mut self) -> Result<Option<DeliveryTag>, Malformed> {
        match self.binary()? {
            None => Ok(None),
            Some(tag) => match DeliveryTag::received(tag) {
                Ok(tag) => Ok(Some(tag)),
                Err(_) => Err(Malformed::TagTooLong(saturated(tag.len()))),
            },
        }
    }

    /// A snd-settle-mode.
    pub fn sender_settle_mode(&mut self) -> Result<Option<SenderSettleMode>, Malformed> {
        self.ubyte()?
            .map(|mode| SenderSettleMode::from_code(mode).ok_or(Malformed::OutOfRange(mode.into())))
            .transpose()
    }

    /// A rcv-settle-mode.
    #[inline]
    pub fn receiver_settle_mode(&mut self) -> Result<Option<ReceiverSettleMode>, Malformed> {
        match self.ubyte()? {
            None => Ok(None),
            Some(mode) => match ReceiverSettleMode::from_code(mode) {
                None => Err(Malformed::OutOfRange(mode.into())),
                known => Ok(known),
            },
        }
    }

    /// Any value, as the bytes it is encoded in.
    #[inline]
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.index += 1;
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let value = self.reader.value()?;
        Ok(if value == [code::NULL] { None } else { Some(value) })
    }

    /// The same as [`Reader::out_of_line`], for the same reason.
    #[inline]
    pub(crate) fn out_of_line<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut copy = *self;
        let result = read(&mut copy);
        *self = copy;
        result
    }

    /// Like [`FieldReader::value`], where a value is seldom there.
    #[cold]
    #[inline(never)]
    pub(crate) fn rare_value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        self.value()
    }

    /// Passes over the next field when it is absent or null.
    #[inline]
    pub(crate) fn skip_null(&mut self) -> bool {
        if self.left == 0 {
            self.index += 1;
            return true;
        }
        self.skip_known([code::NULL])
    }

    /// Passes over the next field when it is encoded as exactly `known`, which must be one value.
    #[inline]
    pub(crate) fn skip_known<const N: usize>(&mut self, known: [u8; N]) -> bool {
        match self.reader.rest().split_first_chunk() {
            Some((front, rest)) if self.left > 0 && *front == known => {
                self.reader = Reader::new(rest);
                self.left -= 1;
                self.index += 1;
                true
            }
            _ => false,
        }
    }

    /// Ends the list of a composite that has no more fields than were read.
    #[inline]
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.left != 0 {
            return Err(Malformed::TooManyFields(self.index.saturating_add(self.left)));
        }
        if !self.reader.is_empty() {
            return Err(Malformed::SizeMismatch);
        }
        Ok(())
    }
}

/// The elements of an array of symbols.
fn read_symbols(count: u32, mut items: Reader<'_>) -> Result<Vec<Symbol>, Malformed> {
    let constructor = items.byte()?;
    let mut symbols = Vec::new();
    for _ in 0..count {
        // Each element takes a length at least, so a false count ends in `Truncated`.
        symbols.push(match constructor {
            code::SYMBOL_8 => owned(items.sized8()?)?,
            code::SYMBOL_32 => owned(items.sized32()?)?,
            found => return Err(Malformed::Unexpected { expected: TypeKind::Symbol, found }),
        });
    }
    if items.is_empty() { Ok(symbols) } else { Err(Malformed::SizeMismatch) }
}

fn owned(word: &[u8]) -> Result<Symbol, Malformed> {
    Symbol::new(ascii(word)?).map_err(|_| Malformed::NotAscii)
}

/// A length for an error message: values beyond `u32` are of no interest.
fn saturated(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
