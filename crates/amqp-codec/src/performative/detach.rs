//! The detach performative (transport 2.7.7).
//!
//! Invariant: a detach without `closed` suspends the link; only `closed=true` destroys it.

use bytes::BytesMut;

use super::connection::{read_error, write_error};
use super::error::Error;
use super::schema::{Composite, DecodeError, Mandatory};
use crate::types::{Reader, write_bool, write_uint};

/// Detaches a link from its session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detach {
    pub handle: u32,
    /// Whether the link ends with it.
    pub closed: bool,
    /// Absent when the end is ordinary.
    pub error: Option<Error>,
}

static DETACH: Composite = Composite { code: 0x16, name: "detach", fields: &["handle", "closed", "error"] };

impl Detach {
    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        DETACH.decode_list(reader, |fields| {
            Ok(Self {
                handle: fields.uint().mandatory()?,
                closed: fields.flag()?,
                error: read_error(fields)?,
            })
        })
    }

    /// Appends the performative, descriptor included, with all three fields.
    pub fn encode(&self, out: &mut BytesMut) {
        DETACH.encode(out, |out| {
            write_uint(out, self.handle);
            write_bool(out, self.closed);
            write_error(out, self.error.as_ref());
        });
    }
}
