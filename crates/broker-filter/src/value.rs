//! Values of properties, what may be compared with what, and what becomes what.
//!
//! Invariant: whether two values may be compared depends on their kinds alone, and integers and doubles
//! are one kind there.

use std::cmp::Ordering;
use std::fmt;

use uuid::Uuid;

use crate::fold::Hash;

/// The value of a property, a constant or a result.
#[derive(Debug, Clone)]
pub enum Value {
    /// Present, and nothing. In an expression it is unknown, as what is absent.
    Null,
    /// True or false.
    Bool(bool),
    /// All integers of the wire. An unsigned one above `i64::MAX` is a [`Value::Double`].
    Int(i64),
    /// All floating point and decimal numbers of the wire.
    Double(f64),
    /// Strings, symbols, single characters and addresses of the wire.
    Text(Box<str>),
    /// A point in time, in milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// A span of time, in ticks of 100 ns, the unit of `com.microsoft:timespan`.
    Duration(i64),
    /// A UUID, in the order of its text.
    Uuid([u8; 16]),
    /// Bytes.
    Binary(Box<[u8]>),
}

/// Kind of a value, for errors and comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// [`Value::Null`]
    Null,
    /// [`Value::Bool`]
    Bool,
    /// [`Value::Int`] and [`Value::Double`]
    Number,
    /// [`Value::Text`]
    Text,
    /// [`Value::Timestamp`]
    Timestamp,
    /// [`Value::Duration`]
    Duration,
    /// [`Value::Uuid`]
    Uuid,
    /// [`Value::Binary`]
    Binary,
}

/// Ticks of a [`Value::Duration`] in a millisecond.
pub(crate) const TICKS_PER_MILLI: i64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Value {
    /// Kind of this value.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) | Self::Double(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::Duration(_) => Kind::Duration,
            Self::Uuid(_) => Kind::Uuid,
            Self::Binary(_) => Kind::Binary,
        }
    }

    /// Whether this is [`Value::Null`].
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text of a [`Value::Text`].
    pub const fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// An unsigned number: a double where an `i64` cannot hold it.
    #[expect(clippy::cast_precision_loss, reason = "a double is the nearest kind there is")]
    pub fn unsigned(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Double(number as f64), Self::Int)
    }

    /// A span of so many milliseconds, the longest there is when that is too many.
    pub const fn duration_ms(millis: i64) -> Self {
        Self::Duration(millis.saturating_mul(TICKS_PER_MILLI))
    }

    /// Whether a condition of a correlation filter holds: values of different kinds differ, and null
    /// equals null.
    pub(crate) fn same(&self, other: &Self) -> bool {
        (self.is_null() && other.is_null()) || Compare::Equal.holds(self, other) == Some(true)
    }

    /// Values that compare as equal, give the same.
    pub(crate) fn hash(&self, hash: Hash) -> Hash {
        let hash = hash.bytes(&[self.kind() as u8]);
        match self {
            Self::Null => hash,
            Self::Bool(value) => hash.bytes(&[u8::from(*value)]),
            Self::Int(value) => hash.bytes(&promote(*value).to_bits().to_le_bytes()),
            // Both zeros are equal.
            Self::Double(value) => hash.bytes(&(value + 0.0).to_bits().to_le_bytes()),
            Self::Text(text) => hash.bytes(&text.len().to_le_bytes()).bytes(text.as_bytes()),
            Self::Timestamp(value) | Self::Duration(value) => hash.bytes(&value.to_le_bytes()),
            Self::Uuid(bytes) => hash.bytes(bytes),
            Self::Binary(bytes) => hash.bytes(&bytes.len().to_le_bytes()).bytes(bytes),
        }
    }

    /// The text that a value becomes when a string is wanted. Times and bytes have none.
    pub(crate) fn render(&self) -> Option<Box<str>> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(value) => Some(if *value { "True" } else { "False" }.into()),
            Self::Int(value) => Some(value.to_string().into()),
            Self::Double(value) => Some(value.to_string().into()),
            Self::Uuid(bytes) => Some(Uuid::from_bytes(*bytes).to_string().into()),
            Self::Null | Self::Timestamp(_) | Self::Duration(_) | Self::Binary(_) => None,
        }
    }

    /// This value as the kind of `model`, where nothing is lost by it; otherwise as it is.
    pub(crate) fn converted_like(self, model: &Self) -> Self {
        let converted = match (&self, model) {
            (Self::Int(value), Self::Double(_)) => {
                Some(promote(*value)).filter(|double| whole(*double) == Some(*value)).map(Self::Double)
            }
            (Self::Double(value), Self::Int(_)) => whole(*value).map(Self::Int),
            (Self::Text(text), Self::Int(_)) => text.trim().parse().ok().map(Self::Int),
            (Self::Text(text), Self::Double(_)) => finite(text).map(Self::Double),
            (Self::Text(text), Self::Bool(_)) => truth(text.trim()).map(Self::Bool),
            (_, Self::Text(_)) => self.render().map(Self::Text),
            _ => None,
        };
        converted.unwrap_or(self)
    }
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn truth(text: &str) -> Option<bool> {
    let is = |word| text.eq_ignore_ascii_case(word);
    if is("true") { Some(true) } else { is("false").then_some(false) }
}

/// An integer where a double is wanted, as C# does it: the nearest double.
#[expect(clippy::cast_precision_loss, reason = "C# promotes a long to a double so")]
pub(crate) const fn promote(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn whole(value: f64) -> Option<i64> {
    // 2^63 is a double; the largest i64 is not.
    let limit = 9_223_372_036_854_775_808.0;
    (value.fract() == 0.0 && (-limit..limit).contains(&value)).then_some(value as i64)
}

/// Equal in kind and content: an integer and a double differ, a number that is none equals itself.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Int(left), Self::Int(right)) => left == right,
            (Self::Double(left), Self::Double(right)) => left.to_bits() == right.to_bits(),
            (Self::Int(_), Self::Double(_)) | (Self::Double(_), Self::Int(_)) => false,
            _ => Compare::Equal.holds(self, other) == Some(true),
        }
    }
}

impl Eq for Value {}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::Text => "string",
            Self::Timestamp => "time",
            Self::Duration => "duration",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
        })
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl Compare {
    /// `None` where the kinds cannot be compared so. Neither value is null.
    pub(crate) fn holds(self, left: &Value, right: &Value) -> Option<bool> {
        use Value::{Binary, Bool, Double, Duration, Int, Text, Timestamp, Uuid};
        match (left, right) {
            (Int(left), Int(right)) => Some(self.of(Some(left.cmp(right)))),
            (Int(left), Double(right)) => Some(self.of(promote(*left).partial_cmp(right))),
            (Double(left), Int(right)) => Some(self.of(left.partial_cmp(&promote(*right)))),
            (Double(left), Double(right)) => Some(self.of(left.partial_cmp(right))),
            (Text(left), Text(right)) => Some(self.of(Some(left.cmp(right)))),
            (Timestamp(left), Timestamp(right)) | (Duration(left), Duration(right)) => {
                Some(self.of(Some(left.cmp(right))))
            }
            (Bool(left), Bool(right)) => self.of_unordered(left == right),
            (Uuid(left), Uuid(right)) => self.of_unordered(left == right),
            (Binary(left), Binary(right)) => self.of_unordered(left == right),
            _ => None,
        }
    }

    /// An order that is absent is that of a number that is none: only `<>` holds.
    const fn of(self, order: Option<Ordering>) -> bool {
        let Some(order) = order else { return matches!(self, Self::NotEqual) };
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    const fn of_unordered(self, equal: bool) -> Option<bool> {
        match self {
            Self::Equal => Some(equal),
            Self::NotEqual => Some(!equal),
            _ => None,
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

#[cfg(test)]
mod tests;
