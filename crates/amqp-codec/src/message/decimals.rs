//! Decimals in the form of Microsoft's AMQP library.
//!
//! IEEE 754-2008 puts the 14 bits of a decimal128's exponent behind the sign. `Microsoft.Azure.Amqp` writes its upper bits two
//! places lower and reads them so, and so does the SDK for Python, which takes any other form for no message at all. Azure Service
//! Bus gives its clients this form, whichever one the sender wrote.
//!
//! Invariant: a value that is in this form already, or is no decimal of .NET, stays as it is.

use bytes::{BufMut, Bytes, BytesMut};

use crate::raw::{MapView, RawValue};
use crate::sections::Section;
use crate::types::{code, write_counted};

/// Exponent of a whole number. It is stored with this bias.
const BIAS: u16 = 6_176;
/// Most digits behind the point that a decimal of .NET has.
const SCALE_MAX: u16 = 28;

/// The application properties (descriptor included) with their decimals in this form; `None` where there is none to change, or no
/// map with whole entries.
#[inline]
pub fn with_service_bus_decimals(section: &[u8]) -> Option<Bytes> {
    // Few messages have the byte at all.
    if section.contains(&code::DECIMAL128) { rewritten(section) } else { None }
}

#[cold]
fn rewritten(section: &[u8]) -> Option<Bytes> {
    let map = MapView::of_section(section).ok()?;
    if map.iter().all(|(_, value)| service_bus_form(value).is_none()) {
        return None;
    }
    let mut out = BytesMut::with_capacity(section.len());
    out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, Section::ApplicationProperties.code()]);
    write_counted(&mut out, code::MAP_8, code::MAP_32, map.iter().count() * 2, |out| {
        for (key, value) in map {
            out.put_slice(key.bytes());
            match service_bus_form(value) {
                Some(decimal) => {
                    out.put_u8(code::DECIMAL128);
                    out.put_slice(&decimal);
                }
                None => out.put_slice(value.bytes()),
            }
        }
    });
    Some(out.freeze())
}

/// The 16 bytes of a decimal that has to be written in the other form.
fn service_bus_form(value: RawValue<'_>) -> Option<[u8; 16]> {
    let mut decimal: [u8; 16] = value.bytes().strip_prefix(&[code::DECIMAL128])?.try_into().ok()?;
    let [first, second, ..] = &mut decimal;
    let exponent = u16::from(*first & 0x7f) << 7 | u16::from(*second >> 1);
    if !(BIAS - SCALE_MAX..=BIAS).contains(&exponent) {
        return None;
    }
    // Bits 7 and 8, which this form has no place for, are 0 in each of these exponents.
    let [upper, _] = (exponent & 0xfe00).to_be_bytes();
    *first = *first & 0x80 | upper >> 1;
    Some(decimal)
}

#[cfg(test)]
mod tests;
