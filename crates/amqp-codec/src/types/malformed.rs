//! Errors of encoded values.
//!
//! Invariant: every way in which bytes can be refused has its own variant.

use super::code;

/// The type of a value, independent of how it is encoded.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TypeKind {
    Described,
    Null,
    Boolean,
    Ubyte,
    Ushort,
    Uint,
    Ulong,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Decimal32,
    Decimal64,
    Decimal128,
    Char,
    Timestamp,
    Uuid,
    Binary,
    String,
    Symbol,
    List,
    Map,
    Array,
}

impl TypeKind {
    /// The type that a constructor byte stands for; `None` for bytes without a meaning.
    pub const fn of(constructor: u8) -> Option<Self> {
        Some(match constructor {
            code::DESCRIBED => Self::Described,
            code::NULL => Self::Null,
            code::TRUE | code::FALSE | code::BOOLEAN => Self::Boolean,
            code::UBYTE => Self::Ubyte,
            code::USHORT => Self::Ushort,
            code::UINT | code::SMALL_UINT | code::UINT_0 => Self::Uint,
            code::ULONG | code::SMALL_ULONG | code::ULONG_0 => Self::Ulong,
            code::BYTE => Self::Byte,
            code::SHORT => Self::Short,
            code::INT | code::SMALL_INT => Self::Int,
            code::LONG | code::SMALL_LONG => Self::Long,
            code::FLOAT => Self::Float,
            code::DOUBLE => Self::Double,
            code::DECIMAL32 => Self::Decimal32,
            code::DECIMAL64 => Self::Decimal64,
            code::DECIMAL128 => Self::Decimal128,
            code::CHAR => Self::Char,
            code::TIMESTAMP => Self::Timestamp,
            code::UUID => Self::Uuid,
            code::BINARY_8 | code::BINARY_32 => Self::Binary,
            code::STRING_8 | code::STRING_32 => Self::String,
            code::SYMBOL_8 | code::SYMBOL_32 => Self::Symbol,
            code::LIST_0 | code::LIST_8 | code::LIST_32 => Self::List,
            code::MAP_8 | code::MAP_32 => Self::Map,
            code::ARRAY_8 | code::ARRAY_32 => Self::Array,
            _ => return None,
        })
    }

    /// The specification's word for the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Described => "described value",
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Ubyte => "ubyte",
            Self::Ushort => "ushort",
            Self::Uint => "uint",
            Self::Ulong => "ulong",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal32 => "decimal32",
            Self::Decimal64 => "decimal64",
            Self::Decimal128 => "decimal128",
            Self::Char => "char",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
            Self::String => "string",
            Self::Symbol => "symbol",
            Self::List => "list",
            Self::Map => "map",
            Self::Array => "array",
        }
    }
}

impl std::fmt::Display for TypeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Malformed value. The peer (or the disk) is to blame for every one of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end before the value does.
    #[error("the bytes end before the value does")]
    Truncated,
    /// The constructor byte has no meaning in AMQP 1.0.
    #[error("unknown constructor {0:#04x}")]
    UnknownConstructor(u8),
    /// A valid value of another type than the field has.
    #[error("expected {expected}, found constructor {found:#04x}")]
    Unexpected {
        /// Type of the field.
        expected: TypeKind,
        /// The constructor byte that was there.
        found: u8,
    },
    /// A described value whose descriptor is not one that belongs here.
    #[error("descriptor does not belong here")]
    UnexpectedDescriptor,
    /// A mandatory field is absent or null.
    #[error("mandatory but missing")]
    Missing,
    /// A value outside of the field's choices or limits.
    #[error("value {0} is out of range")]
    OutOfRange(u32),
    /// A delivery-tag longer than any that is taken. The protocol allows 32 bytes (transport 2.8.7).
    #[error("delivery-tag of {0} bytes, at most 64 are taken")]
    TagTooLong(u32),
    /// A string that is not UTF-8.
    #[error("string is not valid UTF-8")]
    NotUtf8,
    /// A symbol that is not ASCII.
    #[error("symbol is not ASCII")]
    NotAscii,
    /// A char that is no Unicode scalar value.
    #[error("char {0:#x} is not a Unicode scalar value")]
    NotChar(u32),
    /// A boolean encoded as neither 0 nor 1.
    #[error("boolean octet is {0:#04x}, expected 0x00 or 0x01")]
    NotBoolean(u8),
    /// The declared size of a list, map or array does not agree with its contents.
    #[error("declared size and contents do not agree")]
    SizeMismatch,
    /// A map with a key that has no value.
    #[error("map has an odd number of items ({0})")]
    OddMap(u32),
    /// More fields than the composite has.
    #[error("{0} fields are more than are defined")]
    TooManyFields(u32),
    /// Nested deeper than [`guard::MAX_DEPTH`](crate::guard::MAX_DEPTH).
    #[error("nested too deep")]
    TooDeep,
    /// Arrays with more elements of no width than
    /// [`guard::MAX_EMPTY_ELEMENTS`](crate::guard::MAX_EMPTY_ELEMENTS).
    #[error("too many array elements without width")]
    TooManyEmptyElements,
}
