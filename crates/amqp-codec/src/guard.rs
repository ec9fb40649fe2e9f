//! Decides whether an encoded value is safe to look into, before anything does.
//!
//! Recursive readers overflow their stack on a few kilobytes of nested lists, and reserve memory
//! on the word of a 14-byte value. The guard has neither weakness: it keeps a fixed stack of
//! [`MAX_DEPTH`] levels and allocates nothing.
//!
//! Invariant: a value that passes is nested at most [`MAX_DEPTH`] deep, and every size and count
//! inside of it agrees with the bytes that are there.

use crate::types::{Kind, Malformed, Reader, code};

/// How deep lists, maps, arrays and described values may be nested inside of each other.
pub const MAX_DEPTH: usize = 32;

/// How many array elements that take no bytes (null, true, false, 0, empty list) one value may
/// hold altogether. Only these can be declared without being paid for in bytes.
pub const MAX_EMPTY_ELEMENTS: u32 = 4096;

/// A value that must not be looked into. The peer (or the disk) is to blame.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct GuardError {
    /// How far into the value the problem was noticed, in bytes.
    pub offset: usize,
    /// What it is.
    pub problem: Malformed,
}

/// Checks the one value at the start of `bytes`, down to its last element, and returns its
/// encoded length. What follows the value is not looked at.
///
/// Checked are: constructors, nesting, sizes against counts and bytes, UTF-8 of strings, ASCII of
/// symbols, Unicode scalar values of chars, 0 or 1 of booleans, even item counts of maps.
pub fn check_value(bytes: &[u8]) -> Result<usize, GuardError> {
    let mut guard =
        Guard { reader: Reader::new(bytes), levels: [Level::EMPTY; MAX_DEPTH], depth: 0, empty_elements: 0 };
    match guard.run() {
        Ok(()) => Ok(bytes.len() - guard.reader.rest().len()),
        Err(problem) => Err(GuardError { offset: bytes.len() - guard.reader.rest().len(), problem }),
    }
}

/// Checks that `bytes` are exactly one valid value.
pub fn check_whole_value(bytes: &[u8]) -> Result<(), GuardError> {
    match check_value(bytes)? {
        len if len == bytes.len() => Ok(()),
        offset => Err(GuardError { offset, problem: Malformed::SizeMismatch }),
    }
}

/// A list, map, array or described value that is being read.
#[derive(Clone, Copy)]
struct Level {
    /// Elements that are still to come.
    left: u32,
    /// How many bytes must remain of the whole input when the last element has been read.
    /// `None` for a described value, which has no size of its own.
    remaining: Option<usize>,
    /// For an array: the constructor that stands once, in front of all elements.
    element: Option<u8>,
}

impl Level {
    const EMPTY: Self = Self { left: 0, remaining: None, element: None };
}

struct Guard<'a> {
    reader: Reader<'a>,
    levels: [Level; MAX_DEPTH],
    depth: usize,
    empty_elements: u32,
}

impl Guard<'_> {
    fn run(&mut self) -> Result<(), Malformed> {
        let constructor = self.reader.byte()?;
        self.enter(constructor)?;
        while let Some(level) = self.depth.checked_sub(1).and_then(|top| self.levels.get_mut(top)) {
            if level.left == 0 {
                if level.remaining.is_some_and(|end| end != self.reader.rest().len()) {
                    return Err(Malformed::SizeMismatch);
                }
                self.depth -= 1;
                continue;
            }
            level.left -= 1;
            let constructor = match level.element {
                Some(constructor) => constructor,
                None => self.reader.byte()?,
            };
            self.enter(constructor)?;
        }
        Ok(())
    }

    /// Reads what follows a constructor; what has elements becomes a level.
    fn enter(&mut self, constructor: u8) -> Result<(), Malformed> {
        match constructor {
            code::BOOLEAN => match self.reader.byte()? {
                0 | 1 => {}
                other => return Err(Malformed::NotBoolean(other)),
            },
            code::CHAR => {
                let scalar = u32::from_be_bytes(self.reader.array()?);
                char::from_u32(scalar).ok_or(Malformed::NotChar(scalar))?;
            }
            code::STRING_8 => utf8(self.reader.sized8()?)?,
            code::STRING_32 => utf8(self.reader.sized32()?)?,
            code::SYMBOL_8 => ascii(self.reader.sized8()?)?,
            code::SYMBOL_32 => ascii(self.reader.sized32()?)?,
            code::DESCRIBED => self.push(Level { left: 2, ..Level::EMPTY })?,
            code::LIST_8 => _ = self.compound(true)?,
            code::LIST_32 => _ = self.compound(false)?,
            code::MAP_8 => self.map(true)?,
            code::MAP_32 => self.map(false)?,
            code::ARRAY_8 => self.array(true)?,
            code::ARRAY_32 => self.array(false)?,
            known if Kind::of(known).is_some() => self.reader.skip_payload(known)?,
            unknown => return Err(Malformed::UnknownConstructor(unknown)),
        }
        Ok(())
    }

    /// Reads size and count and opens a level for them.
    fn compound(&mut self, short: bool) -> Result<u32, Malformed> {
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
        self.push(Level { left: count, remaining: Some(remaining), element: None })?;
        Ok(count)
    }

    fn map(&mut self, short: bool) -> Result<(), Malformed> {
        match self.compound(short)? {
            count if count % 2 == 1 => Err(Malformed::OddMap(count)),
            _ => Ok(()),
        }
    }

    /// Reads size, count and element constructor of an array and opens a level for its elements.
    fn array(&mut self, short: bool) -> Result<(), Malformed> {
        let count = self.compound(short)?;
        // The constructor stands there even when there are no elements.
        if self.reader.peek() == Some(code::DESCRIBED) {
            // Once for all elements, and here only in the two forms that have a meaning.
            self.reader.descriptor()?;
        }
        let element = self.reader.byte()?;
        let kind = Kind::of(element).ok_or(Malformed::UnknownConstructor(element))?;
        if kind == Kind::Described {
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
            width @ 0x5..=0x9 if !matches!(kind, Kind::Boolean | Kind::Char) => {
                let len = (count as usize).checked_mul(1 << (width - 5));
                self.reader.take(len.ok_or(Malformed::Truncated)?)?;
                0
            }
            _ => count,
        };
        if let Some(level) = self.levels.get_mut(self.depth - 1) {
            level.left = left;
            level.element = Some(element);
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
