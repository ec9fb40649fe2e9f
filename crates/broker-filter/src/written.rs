//! Forms in which values were written, kept where the value alone loses it: a time without a zone is stored as UTC, and all integers
//! are 64 bits long.
//!
//! Invariant: each name has one form at most, found whatever the case of the name; forms decide nothing.

use crate::fold;

/// Form in which a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// The text of a time.
    Time(Box<str>),
    /// The type of a number.
    Number(NumberType),
}

/// The types of numbers that AMQP and XML schema tell apart, beside double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberType {
    /// 8 bits with a sign.
    Byte,
    /// 16 bits with a sign.
    Short,
    /// 32 bits with a sign.
    Int,
    /// 64 bits with a sign.
    Long,
    /// 8 bits.
    UnsignedByte,
    /// 16 bits.
    UnsignedShort,
    /// 32 bits.
    UnsignedInt,
    /// 64 bits, as far as they are an integer here.
    UnsignedLong,
    /// 32 bits, floating point.
    Float,
    /// A decimal number of XML schema.
    Decimal,
}

impl NumberType {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Byte,
        Self::Short,
        Self::Int,
        Self::Long,
        Self::UnsignedByte,
        Self::UnsignedShort,
        Self::UnsignedInt,
        Self::UnsignedLong,
        Self::Float,
        Self::Decimal,
    ];
}

/// Forms in which some values were written, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WrittenForms {
    /// In the order of the names.
    forms: Vec<(Box<str>, Written)>,
}

impl WrittenForms {
    pub(crate) const fn new() -> Self {
        Self { forms: Vec::new() }
    }

    /// Keeps how the value of that name was written.
    pub(crate) fn keep(&mut self, name: &str, written: Written) {
        match self.place(name) {
            Ok(place) => {
                if let Some((_, old)) = self.forms.get_mut(place) {
                    *old = written;
                }
            }
            Err(place) => self.forms.insert(place, (name.into(), written)),
        }
    }

    /// The value of that name has another one now, or none.
    pub(crate) fn forget(&mut self, name: &str) {
        if let Ok(place) = self.place(name) {
            self.forms.remove(place);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Written> {
        let place = self.place(name).ok()?;
        self.forms.get(place).map(|(_, written)| written)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.forms.binary_search_by(|(other, _)| fold::compare(other, name))
    }
}
