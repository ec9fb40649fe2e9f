//! The disposition performative (transport 2.7.6).
//!
//! Nothing here touches the heap, unless the state needs it (see [`DeliveryState`]).
//!
//! Invariant: all six fields are written.

use bytes::BytesMut;

use super::schema::{Composite, DecodeError, Mandatory};
use super::state::{self, DeliveryState};
use crate::types::{FieldReader, Reader, Role, write_bool, write_opt, write_uint};

/// Tells the state of a range of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub struct Disposition {
    /// Role of the sending side: a receiver settles the peer's deliveries, a sender its own.
    pub role: Role,
    /// The first delivery-id of the range.
    pub first: u32,
    /// The last delivery-id of the range, inclusive; absent means the first alone.
    pub last: Option<u32>,
    /// Whether the speaker has settled them.
    pub settled: bool,
    pub state: Option<DeliveryState>,
    /// Whether the answer may wait.
    pub batchable: bool,
}

pub(crate) static DISPOSITION: Composite = Composite {
    code: 0x15,
    name: "disposition",
    fields: &["role", "first", "last", "settled", "state", "batchable"],
};

impl Disposition {
    /// Reads the fields of a disposition from the list at the front of `reader`; the descriptor is
    /// already read.
    #[inline]
    pub fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        DISPOSITION.decode_whole_list(reader, Self::read)
    }

    #[inline]
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let role = Role::from(fields.boolean().mandatory()?);
        let first = fields.uint().mandatory()?;
        let last = fields.uint()?;
        let settled = fields.flag()?;
        let state = state::read_field(fields)?;
        let batchable = fields.flag()?;
        fields.finish()?;
        Ok(Self { role, first, last, settled, state, batchable })
    }

    /// Appends the performative, descriptor included, with all six fields.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        DISPOSITION.encode(out, |out| {
            write_bool(out, self.role.is_receiver());
            write_uint(out, self.first);
            write_opt(out, self.last, write_uint);
            write_bool(out, self.settled);
            write_opt(out, self.state.as_ref(), |out, state| state.encode(out));
            write_bool(out, self.batchable);
        });
    }
}
