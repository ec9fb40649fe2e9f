//! The error composite (transport 2.8.14).
//!
//! Invariant: an error is written with all three of its fields. The Python SDK indexes into them,
//! and hangs or fails on a shorter list.

use bytes::BytesMut;

use super::schema::{Composite, DecodeError, Mandatory, read_map, write_map};
use crate::raw::RawMap;
use crate::types::{FieldReader, Malformed, Reader, Symbol, write_opt, write_str, write_symbol};

/// Error of a connection, session, link or delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The name of the condition.
    pub condition: Symbol,
    pub description: Option<String>,
    /// Supplementary information.
    pub info: Option<RawMap>,
}

static ERROR: Composite =
    Composite { code: 0x1d, name: "error", fields: &["condition", "description", "info"] };

impl Error {
    /// An error with a sentence and without further information.
    pub fn new(condition: impl Into<Symbol>, description: impl Into<String>) -> Self {
        Self { condition: condition.into(), description: Some(description.into()), info: None }
    }

    /// Reads a field that holds an error.
    pub(super) fn read_field(fields: &mut FieldReader<'_>) -> Result<Option<Self>, DecodeError> {
        fields.value()?.map(Self::decode).transpose()
    }

    /// Reads the error that `bytes` are, descriptor included.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if !ERROR.is(reader.descriptor()?) {
            return Err(Malformed::UnexpectedDescriptor.into());
        }
        ERROR.decode_list(&mut reader, |fields| {
            Ok(Self {
                condition: fields.owned_symbol().mandatory()?,
                description: fields.string()?.map(str::to_owned),
                info: read_map(fields)?,
            })
        })
    }

    /// Appends the error, descriptor included, with all three fields.
    pub fn encode(&self, out: &mut BytesMut) {
        ERROR.encode(out, |out| {
            write_symbol(out, &self.condition);
            write_opt(out, self.description.as_deref(), write_str);
            write_map(out, self.info.as_ref());
        });
    }
}
