//! Reads values from the front of a byte slice.
//!
//! Invariant: reading never goes past the slice, and takes time linear in what it reads.

use super::{DeliveryTag, Kind, Malformed, ReceiverSettleMode, SenderSettleMode, Symbol, code};

/// Reads one value after another from encoded bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// What says which type a described value is (types 1.3): a number or a name, equal in meaning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Descriptor<'a> {
    /// Numeric, with the domain in the upper half.
    Code(u64),
    /// Symbolic, such as `amqp:open:list`.
    Name(&'a str),
}

impl<'a> Reader<'a> {
    /// Reads from the front of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// The constructor byte that comes next, without reading it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (&first, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (first, rest) = self.rest.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// A length of one byte, then that many bytes.
    #[inline]
    pub fn sized8(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.byte()?;
        self.take(usize::from(len))
    }

    /// A length of four bytes, then that many bytes.
    #[inline]
    pub fn sized32(&mut self) -> Result<&'a [u8], Malformed> {
        let len = u32::from_be_bytes(self.array()?);
        self.take(usize::try_from(len).map_err(|_| Malformed::Truncated)?)
    }

    /// Passes over the payload that follows the constructor `constructor` of a primitive value.
    #[inline]
    pub fn skip_payload(&mut self, constructor: u8) -> Result<(), Malformed> {
        let category = constructor >> 4;
        match category {
            0x0..=0x3 => return Err(Malformed::UnknownConstructor(constructor)),
            // Fixed widths: 0, 1, 2, 4, 8, 16 bytes. Computed, as a jump for each would cost more.
            0x4..=0x9 => _ = self.take((1_usize << category) >> 5)?,
            // Variable, compound and array: a length of one byte in the even categories, else four.
            0xa.. if category.is_multiple_of(2) => _ = self.sized8()?,
            0xa.. => _ = self.sized32()?,
        }
        Ok(())
    }

    /// Passes over one value and returns its bytes, without looking inside of it.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.rest;
        let constructor = self.byte()?;
        if constructor == code::DESCRIBED {
            self.out_of_line(Self::skip_described)?;
        } else {
            self.skip_payload(constructor)?;
        }
        let len = start.len() - self.rest.len();
        start.get(..len).ok_or(Malformed::Truncated)
    }

    /// Passes over what follows a described constructor. A descriptor may itself be described:
    /// what is left to read is counted, not nested.
    #[cold]
    fn skip_described(&mut self) -> Result<(), Malformed> {
        let mut pending = 2_usize;
        while pending > 0 {
            match self.byte()? {
                code::DESCRIBED => pending += 1,
                constructor => {
                    self.skip_payload(constructor)?;
                    pending -= 1;
                }
            }
        }
        Ok(())
    }

    /// The descriptor of a described value: its constructor `0x00` and the descriptor after it.
    #[inline]
    pub fn descriptor(&mut self) -> Result<Descriptor<'a>, Malformed> {
        // The form that everybody writes, in one comparison.
        if let [code::DESCRIBED, code::SMALL_ULONG, number, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(Descriptor::Code(u64::from(*number)));
        }
        self.out_of_line(Self::descriptor_slow)
    }

    /// Calls `read` on a copy and takes the copy's place over. A call that is not inlined would
    /// otherwise pin this reader's state in memory, also for the calls before and after it.
    #[inline]
    pub(crate) fn out_of_line<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut copy = *self;
        let result = read(&mut copy);
        *self = copy;
        result
    }

    #[cold]
    #[inline(never)]
    fn descriptor_slow(&mut self) -> Result<Descriptor<'a>, Malformed> {
        match self.byte()? {
            code::DESCRIBED => {}
            found => return Err(Malformed::Unexpected { expected: Kind::Described, found }),
        }
        Ok(match self.byte()? {
            code::SMALL_ULONG => Descriptor::Code(u64::from(self.byte()?)),
            code::ULONG_0 => Descriptor::Code(0),
            code::ULONG => Descriptor::Code(u64::from_be_bytes(self.array()?)),
            code::SYMBOL_8 => Descriptor::Name(ascii(self.sized8()?)?),
            code::SYMBOL_32 => Descriptor::Name(ascii(self.sized32()?)?),
            _ => return Err(Malformed::UnexpectedDescriptor),
        })
    }

    /// The fields of a list. The list as a whole is read: what remains is what follows it.
    #[inline]
    pub fn list(&mut self) -> Result<FieldReader<'a>, Malformed> {
        let (left, rest) = match self.byte()? {
            code::LIST_0 => (0, &[][..]),
            code::LIST_8 => {
                let (&count, items) = self.sized8()?.split_first().ok_or(Malformed::SizeMismatch)?;
                (u32::from(count), items)
            }
            code::LIST_32 => {
                let items = self.sized32()?;
                let (&count, items) = items.split_first_chunk().ok_or(Malformed::SizeMismatch)?;
                (u32::from_be_bytes(count), items)
            }
            found => return Err(Malformed::Unexpected { expected: Kind::List, found }),
        };
        // An item takes a byte at least.
        if left as usize > rest.len() {
            return Err(Malformed::SizeMismatch);
        }
        Ok(FieldReader { reader: Reader { rest }, left, index: 0 })
    }

    /// The items of a map: how many (an even number), and their bytes.
    #[inline]
    pub fn map(&mut self) -> Result<(u32, &'a [u8]), Malformed> {
        let (count, items) = match self.byte()? {
            code::MAP_8 => {
                let (&count, items) = self.sized8()?.split_first().ok_or(Malformed::SizeMismatch)?;
                (u32::from(count), items)
            }
            code::MAP_32 => {
                let items = self.sized32()?;
                let (&count, items) = items.split_first_chunk().ok_or(Malformed::SizeMismatch)?;
                (u32::from_be_bytes(count), items)
            }
            found => return Err(Malformed::Unexpected { expected: Kind::Map, found }),
        };
        if count % 2 == 1 {
            return Err(Malformed::OddMap(count));
        }
        if count as usize > items.len() {
            return Err(Malformed::SizeMismatch);
        }
        Ok((count, items))
    }
}

/// Checked ASCII.
pub(super) fn ascii(bytes: &[u8]) -> Result<&str, Malformed> {
    if !bytes.is_ascii() {
        return Err(Malformed::NotAscii);
    }
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotAscii)
}

/// Checked UTF-8.
fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)
}

/// Reads the fields of a composite's list one by one. A field that is null, and one that the list
/// is too short to have, are both `None` (types 1.4).
#[derive(Clone, Copy, Debug)]
pub struct FieldReader<'a> {
    reader: Reader<'a>,
    left: u32,
    index: u32,
}

impl<'a> FieldReader<'a> {
    /// How many fields were asked for so far. After an error: the number of the field that it
    /// is about, counted from 1.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// How many fields the list still has.
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
            found => Err(Malformed::Unexpected { expected: Kind::Boolean, found }),
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
            Some(found) => Err(Malformed::Unexpected { expected: Kind::Ubyte, found }),
        }
    }

    /// A ushort.
    #[inline]
    pub fn ushort(&mut self) -> Result<Option<u16>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            Some(code::USHORT) => Ok(Some(u16::from_be_bytes(self.reader.array()?))),
            Some(found) => Err(Malformed::Unexpected { expected: Kind::Ushort, found }),
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
            Err(Malformed::Unexpected { expected: Kind::Uint, found: constructor })
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
            Some(found) => return Err(Malformed::Unexpected { expected: Kind::Ulong, found }),
        }))
    }

    /// A timestamp, in milliseconds since 1970 UTC.
    pub fn timestamp(&mut self) -> Result<Option<i64>, Malformed> {
        match self.constructor()? {
            None => Ok(None),
            Some(code::TIMESTAMP) => Ok(Some(i64::from_be_bytes(self.reader.array()?))),
            Some(found) => Err(Malformed::Unexpected { expected: Kind::Timestamp, found }),
        }
    }

    /// A binary.
    #[inline]
    pub fn binary(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::BINARY_8) => self.reader.sized8()?,
            Some(code::BINARY_32) => self.reader.sized32()?,
            Some(found) => return Err(Malformed::Unexpected { expected: Kind::Binary, found }),
        }))
    }

    /// A string.
    pub fn string(&mut self) -> Result<Option<&'a str>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::STRING_8) => utf8(self.reader.sized8()?)?,
            Some(code::STRING_32) => utf8(self.reader.sized32()?)?,
            Some(found) => return Err(Malformed::Unexpected { expected: Kind::String, found }),
        }))
    }

    /// A symbol.
    pub fn symbol(&mut self) -> Result<Option<&'a str>, Malformed> {
        Ok(Some(match self.constructor()? {
            None => return Ok(None),
            Some(code::SYMBOL_8) => ascii(self.reader.sized8()?)?,
            Some(code::SYMBOL_32) => ascii(self.reader.sized32()?)?,
            Some(found) => return Err(Malformed::Unexpected { expected: Kind::Symbol, found }),
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
            Some(found) => return Err(Malformed::Unexpected { expected: Kind::Symbol, found }),
        };
        let (count, items) = array.ok_or(Malformed::SizeMismatch)?;
        read_symbols(count, Reader::new(items))
    }

    /// A delivery-tag.
    #[inline]
    pub fn delivery_tag(&mut self) -> Result<Option<DeliveryTag>, Malformed> {
        match self.binary()? {
            None => Ok(None),
            Some(tag) => match DeliveryTag::try_from(tag) {
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
        match self.reader.rest.split_first_chunk() {
            Some((front, rest)) if self.left > 0 && *front == known => {
                self.reader.rest = rest;
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
            found => return Err(Malformed::Unexpected { expected: Kind::Symbol, found }),
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
