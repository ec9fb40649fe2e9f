//! The transfer performative (transport 2.7.5).
//!
//! Nothing here touches the heap, unless the state needs it (see [`DeliveryState`]).
//!
//! Invariant: all eleven fields are written.

use bytes::BytesMut;

use super::schema::{Composite, DecodeError, Mandatory};
use super::state::{self, DeliveryState};
use crate::types::{
    DeliveryTag, FieldReader, Reader, ReceiverSettleMode, write_binary, write_bool, write_opt, write_ubyte,
    write_uint,
};

/// Carries a message, or a part of one.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "the specification's own fields")]
pub struct Transfer {
    pub handle: u32,
    /// The delivery's place in the session; must be there on its first transfer.
    pub delivery_id: Option<u32>,
    /// The sender's name for the delivery; must be there on its first transfer.
    pub delivery_tag: Option<DeliveryTag>,
    /// Required on the first transfer of a delivery.
    pub message_format: Option<u32>,
    /// Whether the sender has already settled. Absent on the first transfer means no.
    pub settled: Option<bool>,
    /// Whether further transfers of this delivery follow.
    pub more: bool,
    /// The delivery's own choice, instead of the link's.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The sender's view of the delivery's state.
    pub state: Option<DeliveryState>,
    /// Whether this resumes a delivery.
    pub resume: bool,
    /// Whether the delivery is abandoned half-way.
    pub aborted: bool,
    /// Whether the answer may wait.
    pub batchable: bool,
}

pub(crate) static TRANSFER: Composite = Composite {
    code: 0x14,
    name: "transfer",
    fields: &[
        "handle",
        "delivery-id",
        "delivery-tag",
        "message-format",
        "settled",
        "more",
        "rcv-settle-mode",
        "state",
        "resume",
        "aborted",
        "batchable",
    ],
};

impl Transfer {
    /// Reads the fields of a transfer from the list at the front of `reader`; the descriptor is
    /// already read.
    #[inline]
    pub fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        TRANSFER.decode_whole_list(reader, Self::read)
    }

    #[inline]
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let handle = fields.uint().mandatory()?;
        let delivery_id = fields.uint()?;
        let delivery_tag = fields.delivery_tag()?;
        let message_format = fields.uint()?;
        let settled = fields.boolean()?;
        let more = fields.flag()?;
        let rcv_settle_mode = fields.receiver_settle_mode()?;
        let state = state::read_field(fields)?;
        let resume = fields.flag()?;
        let aborted = fields.flag()?;
        let batchable = fields.flag()?;
        fields.finish()?;
        Ok(Self {
            handle,
            delivery_id,
            delivery_tag,
            message_format,
            settled,
            more,
            rcv_settle_mode,
            state,
            resume,
            aborted,
            batchable,
        })
    }

    /// Appends the performative, descriptor included, with all eleven fields.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        TRANSFER.encode(out, |out| {
            write_uint(out, self.handle);
            write_opt(out, self.delivery_id, write_uint);
            write_opt(out, self.delivery_tag.as_deref(), write_binary);
            write_opt(out, self.message_format, write_uint);
            write_opt(out, self.settled, write_bool);
            write_bool(out, self.more);
            write_opt(out, self.rcv_settle_mode, |out, mode| write_ubyte(out, mode.code()));
            write_opt(out, self.state.as_ref(), |out, state| state.encode(out));
            write_bool(out, self.resume);
            write_bool(out, self.aborted);
            write_bool(out, self.batchable);
        });
    }
}
