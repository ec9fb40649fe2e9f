//! Reads values from the front of a byte slice.
//!
//! Invariant: reading never goes past the slice, and takes time linear in what it reads.

use super::{FieldReader, Malformed, TypeKind, code};

/// Reads one value after another from encoded bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// Descriptor of a described value (types 1.3): a number or a name, equal in meaning.
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

    /// Bytes not read yet.
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
            found => return Err(Malformed::Unexpected { expected: TypeKind::Described, found }),
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
            found => return Err(Malformed::Unexpected { expected: TypeKind::List, found }),
        };
        // An item takes a byte at least.
        if left as usize > rest.len() {
            return Err(Malformed::SizeMismatch);
        }
        Ok(FieldReader::new(Reader { rest }, left))
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
            found => return Err(Malformed::Unexpected { expected: TypeKind::Map, found }),
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
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::NotUtf8)
}
