//! Decides whether an encoded value is safe to look into, before anything does.
//!
//! Recursive readers overflow their stack on a few kilobytes of nested lists, and reserve memory
//! on the word of a 14-byte value. The guard has neither weakness: it keeps a fixed stack of
//! [`MAX_DEPTH`] levels and allocates nothing.
//!
//! Invariant: a value that passes is nested at most [`MAX_DEPTH`] deep, and every size and count
//! inside of it agrees with the bytes that are there.

use crate::types::{Malformed, Reader, TypeKind, code};

/// Deepest nesting of lists, maps, arrays and described values.
pub const MAX_DEPTH: usize = 32;

/// Most array elements of zero bytes (null, true, false, 0, empty list) in one value. Only these
/// can be declared without bytes behind them, so only these could exhaust memory.
pub const MAX_EMPTY_ELEMENTS: u32 = 4096;

/// A value that must not be looked into. The peer (or the disk) is to blame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct GuardError {
    /// Offset in the value at which the problem was noticed, in bytes.
    pub offset: usize,
    pub problem: Malformed,
}

/// Checks the one value at the start of `bytes`, down to its last element, and returns its
/// encoded length. What follows the value is not looked at.
///
/// Checked are: constructors, nesting, sizes against counts and bytes, UTF-8 of strings, ASCII of
/// symbols, Unicode scalar values of chars, 0 or 1 of booleans, even item counts of maps.
pub fn check_value(bytes: &[u8]) -> Result<usize, GuardError> {
    Guard::new().check_value(bytes)
}

/// Checks that `bytes` are exactly one valid value.
pub fn check_whole_value(bytes: &[u8]) -> Result<(), GuardError> {
    Guard::new().check_whole_value(bytes)
}

/// A list, map, array or described value that is being read.
#[derive(Clone, Copy)]
struct Level {
    /// Bytes of the whole input that must remain when the last element has been read.
    remaining: usize,
    /// Elements that are still to come.
    left: u32,
    /// For an array: the constructor that stands once, in front of all elements. Else
    /// [`code::DESCRIBED`], which no array element is.
    element: u8,
}

impl Level {
    const EMPTY: Self = Self { remaining: 0, left: 0, element: code::DESCRIBED };
    /// A described value has no size of its own.
    const UNSIZED: usize = usize::MAX;

    /// Checks elements up to the next one that has elements itself, and returns its constructor;
    /// `None` at the end of the level.
    fn next_nested(&mut self, from: &mut Reader<'_>) -> Result<Option<u8>, Malformed> {
        // Copies, which stay in registers while the elements are plain.
        let mut reader = *from;
        let mut left = self.left;
        while left > 0 {
            left -= 1;
            let constructor = match self.element {
                code::DESCRIBED => reader.byte(),
                element => Ok(element),
            };
            let plain = constructor.and_then(|it| Ok((it, check_scalar(&mut reader, it)?)));
            match plain {
                Ok((_, true)) => {}
                Ok((nested, false)) => {
                    *from = reader;
                    self.left = left;
                    return Ok(Some(nested));
                }
                Err(problem) => {
                    *from = reader;
                    return Err(problem);
                }
            }
        }
        *from = reader;
        if self.remaining == Self::UNSIZED || self.remaining == reader.rest().len() {
            Ok(None)
        } else {
            Err(Malformed::SizeMismatch)
        }
    }
}

/// Checks the payload of a value without elements; `false`, and nothing read, for others.
#[expect(clippy::inline_always, reason = "a call pins the reader in memory: twice the time")]
#[inline(always)]
fn check_scalar(reader: &mut Reader<'_>, constructor: u8) -> Result<bool, Malformed> {
    match constructor {
        code::STRING_8 => utf8(reader.sized8()?)?,
        code::SYMBOL_8 => ascii(reader.sized8()?)?,
        code::STRING_32 => utf8(reader.sized32()?)?,
        code::SYMBOL_32 => ascii(reader.sized32()?)?,
        code::BINARY_8 => _ = reader.sized8()?,
        code::BINARY_32 => _ = reader.sized32()?,
        code::NULL | code::TRUE | code::FALSE | code::UINT_0 | code::ULONG_0 | code::LIST_0 => {}
        code::UBYTE | code::BYTE => _ = reader.take(1)?,
        code::SMALL_UINT | code::SMALL_ULONG | code::SMALL_INT | code::SMALL_LONG => {
            reader.take(1)?;
        }
        code::USHORT | code::SHORT => _ = reader.take(2)?,
        code::UINT | code::INT | code::FLOAT | code::DECIMAL32 => _ = reader.take(4)?,
        code::ULONG | code::LONG | code::DOUBLE | code::TIMESTAMP | code::DECIMAL64 => {
            reader.take(8)?;
        }
        code::DECIMAL128 | code::UUID => _ = reader.take(16)?,
        code::BOOLEAN => match reader.byte()? {
            0 | 1 => {}
            other => return Err(Malformed::NotBoolean(other)),
        },
        code::CHAR => {
            let scalar = u32::from_be_bytes(reader.array()?);
            char::from_u32(scalar).ok_or(Malformed::NotChar(scalar))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The guard at work: a stack that can check one value after another.
pub(crate) struct Guard<'a> {
    reader: Reader<'a>,
    levels: [Level; MAX_DEPTH],
    depth: usize,
    empty_elements: u32,
}

impl<'a> Guard<'a> {
    pub(crate) const fn new() -> Self {
        Self { reader: Reader::new(&[]), levels: [Level::EMPTY; MAX_DEPTH], depth: 0, empty_elements: 0 }
    }

    /// See [`check_value`]; the limit for elements without width is for all values together.
    pub(crate) fn check_value(&mut self, bytes: &'a [u8]) -> Result<usize, GuardError> {
        self.reader = Reader::new(bytes);
        self.depth = 0;
        let result = self.run();
        let offset = bytes.len() - self.reader.rest().len();
        match result {
            Ok(()) => Ok(offset),
            Err(problem) => Err(GuardError { offset, problem }),
        }
    }

    /// See [`check_whole_value`].
    pub(crate) fn check_whole_value(&mut self, bytes: &'a [u8]) -> Result<(), GuardError> {
        match self.check_value(bytes)? {
            len if len == bytes.len() => Ok(()),
            offset => Err(GuardError { offset, problem: Malformed::SizeMismatch }),
        }
    }

    fn run(&mut self) -> Result<(), Malformed> {
        let constructor = self.reader.byte()?;
        self.enter(constructor)?;
        while let Some(level) = self.depth.checked_sub(1).and_then(|top| self.levels.get_mut(top)) {
            match level.next_nested(&mut self.reader)? {
                Some(constructor) => self.enter_nested(constructor)?,
                None => self.depth -= 1,
            }
        }
        Ok(())
    }

    /// Reads what follows a constructor; what has elements becomes a level.
    fn enter(&mut self, constructor: u8) -> Result<(), Malformed> {
        if check_scalar(&mut self.reader, constructor)? {
            return Ok(());
        }
        self.enter_nested(constructor)
    }

    /// Opens a level for what has elements.
    fn enter_nested(&mut self, constructor: u8) -> Result<(), Malformed> {
        match constructor {
            code::DESCRIBED => self.push(Level { left: 2, remaining: Level::UNSIZED, ..Level::EMPTY }),
            code::LIST_8 => self.list(true).map(|_| ()),
            code::LIST_32 => self.list(false).map(|_| ()),
            code::MAP_8 => self.map(true),
            code::MAP_32 => self.map(false),
            code::ARRAY_8 => self.array(true),
            code::ARRAY_32 => self.array(false),
            unknown => Err(Malformed::UnknownConstructor(unknown)),
        }
    }

    /// Reads size and count and opens a level for them. Returns the count and how many bytes the
    /// elements take.
    fn compound(&mut self, short: bool) -> Result<(u32, usize), Malformed> {
        let (size, count_len, count) = if short {
            let [size, count] = self.reader.array()?;
            (usize::from(size), 1, u32::from(count))
        } else {
            let size = u32::from_be_bytes(self.reader.array()?) as usize;
            (size, 4, u32::from_be_bytes(self.reader.array()?))
        };
        let contents = size.checked_sub(count_len).ok_or(Malformed::SizeMismatch)?;
        let available = self.reader.rest().len();
        let remaining = available.checked_sub(contents).ok_or(Malformed::Truncated)?;
        self.push(Level { left: count, remaining, ..Level::EMPTY })?;
        Ok((count, contents))
    }

    fn list(&mut self, short: bool) -> Result<u32, Malformed> {
        let (count, contents) = self.compound(short)?;
        // Every item takes a byte at least. (Elements of an array need not.)
        if count as usize > contents { Err(Malformed::SizeMismatch) } else { Ok(count) }
    }

    fn map(&mut self, short: bool) -> Result<(), Malformed> {
        match self.list(short)? {
            count if count % 2 == 1 => Err(Malformed::OddMap(count)),
            _ => Ok(()),
        }
    }

    /// Reads size, count and element constructor of an array and opens a level for its elements.
    fn array(&mut self, short: bool) -> Result<(), Malformed> {
        let (count, _) = self.compound(short)?;
        // The constructor stands there even when there are no elements.
        if self.reader.peek() == Some(code::DESCRIBED) {
            // Once for all elements, and here only in the two forms that have a meaning.
            self.reader.descriptor()?;
        }
        let element = self.reader.byte()?;
        let kind = TypeKind::of(element).ok_or(Malformed::UnknownConstructor(element))?;
        if kind == TypeKind::Described {
            return Err(Malformed::UnexpectedDescriptor);
        }
        let left = match element >> 4 {
            0x4 => {
                self.empty_elements = self.empty_elements.saturating_add(count);
                if self.empty_elements > MAX_EMPTY_ELEMENTS {
                    return Err(Malformed::TooManyEmptyElements);
                }
                0
            }
            // Numbers have nothing to check: passed over at once.
            width @ 0x5..=0x9 if !matches!(kind, TypeKind::Boolean | TypeKind::Char) => {
                let len = (count as usize).checked_mul(1 << (width - 5));
                self.reader.take(len.ok_or(Malformed::Truncated)?)?;
                0
            }
            _ => count,
        };
        if let Some(level) = self.levels.get_mut(self.depth - 1) {
            level.left = left;
            level.element = element;
        }
        Ok(())
    }

    fn push(&mut self, level: Level) -> Result<(), Malformed> {
        let place = self.levels.get_mut(self.depth).ok_or(Malformed::TooDeep)?;
        *place = level;
        self.depth += 1;
        Ok(())
    }
}

fn utf8(bytes: &[u8]) -> Result<(), Malformed> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(Malformed::NotUtf8),
    }
}

fn ascii(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.is_ascii() { Ok(()) } else { Err(Malformed::NotAscii) }
}

#[cfg(test)]
mod tests;
