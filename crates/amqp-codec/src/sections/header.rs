//! The header section (messaging 3.2.1).
//!
//! Invariant: a header is written with all five fields, delivery-count 0 included. The Java SDK
//! fails on a message without, the .NET SDK on a header that leaves the count to its default.

use bytes::BytesMut;

use crate::types::{
    Malformed, Reader, write_bool, write_descriptor, write_list, write_opt, write_ubyte, write_uint,
};

/// The fields that belong to the transfer of a message rather than to the message.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Whether it must survive what the node survives. Absent means no.
    pub durable: Option<bool>,
    /// Absent means 4.
    pub priority: Option<u8>,
    /// In milliseconds.
    pub ttl: Option<u32>,
    /// Whether nobody else has acquired it before. Absent means that somebody may have.
    pub first_acquirer: Option<bool>,
    /// Number of earlier delivery attempts that failed.
    pub delivery_count: u32,
}

impl Header {
    /// The priority of a message that names none.
    pub const DEFAULT_PRIORITY: u8 = 4;

    /// The priority, with its default.
    pub fn priority_or_default(&self) -> u8 {
        self.priority.unwrap_or(Self::DEFAULT_PRIORITY)
    }

    /// Whether the message must survive what the node survives, with the default of the field.
    pub fn is_durable(&self) -> bool {
        self.durable.unwrap_or(false)
    }

    /// Whether nobody else has acquired the message before, with the default of the field.
    pub fn is_first_acquirer(&self) -> bool {
        self.first_acquirer.unwrap_or(false)
    }

    /// Reads a section, descriptor included; an empty slice is a header with the defaults.
    #[inline]
    pub fn decode(section: &[u8]) -> Result<Self, Malformed> {
        if section.is_empty() {
            return Ok(Self::default());
        }
        let mut reader = Reader::new(section);
        reader.descriptor()?;
        let mut fields = reader.list()?;
        // Fields beyond the fifth are ignored: nothing says what they would mean.
        Ok(Self {
            durable: fields.boolean()?,
            priority: fields.ubyte()?,
            ttl: fields.uint()?,
            first_acquirer: fields.boolean()?,
            delivery_count: fields.uint()?.unwrap_or(0),
        })
    }

    /// Appends the section, descriptor included, with all five fields; those that are absent are null.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        write_descriptor(out, 0x70);
        write_list(out, 5, |out| {
            write_opt(out, self.durable, write_bool);
            write_opt(out, self.priority, write_ubyte);
            write_opt(out, self.ttl, write_uint);
            write_opt(out, self.first_acquirer, write_bool);
            write_uint(out, self.delivery_count);
        });
    }
}
