//! The primitive types of AMQP 1.0 (part 1) and the small typed pieces built from them.
//!
//! Invariant: every encoding of a type that the specification allows is read, and what is written
//! is the shortest of them.

mod delivery_tag;
mod fields;
mod malformed;
mod read;
mod settle;
mod symbol;
mod write;

pub(crate) use write::{wire_len, write_counted, write_fixed};

pub use delivery_tag::{DeliveryTag, TagTooLong};
pub use fields::FieldReader;
pub use malformed::{Malformed, TypeKind};
pub use read::{Descriptor, Reader};
pub use settle::{ReceiverSettleMode, Role, SenderSettleMode};
pub use symbol::{NotAscii, Symbol};
pub use write::{
    write_binary, write_binary_pieces, write_bool, write_byte, write_descriptor, write_double, write_float,
    write_int, write_list, write_long, write_map, write_null, write_opt, write_short, write_str,
    write_symbol, write_symbols, write_timestamp, write_ubyte, write_uint, write_ulong, write_ushort,
    write_uuid,
};

/// Constructor bytes of the encodings (types 1.6).
pub mod code {
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT_0: u8 = 0x43;
    pub const ULONG_0: u8 = 0x44;
    pub const LIST_0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const DECIMAL32: u8 = 0x74;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const DECIMAL64: u8 = 0x84;
    pub const DECIMAL128: u8 = 0x94;
    pub const UUID: u8 = 0x98;
    pub const BINARY_8: u8 = 0xa0;
    pub const STRING_8: u8 = 0xa1;
    pub const SYMBOL_8: u8 = 0xa3;
    pub const BINARY_32: u8 = 0xb0;
    pub const STRING_32: u8 = 0xb1;
    pub const SYMBOL_32: u8 = 0xb3;
    pub const LIST_8: u8 = 0xc0;
    pub const MAP_8: u8 = 0xc1;
    pub const LIST_32: u8 = 0xd0;
    pub const MAP_32: u8 = 0xd1;
    pub const ARRAY_8: u8 = 0xe0;
    pub const ARRAY_32: u8 = 0xf0;
}

#[cfg(test)]
mod tests;
