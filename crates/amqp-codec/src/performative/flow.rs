//! The flow performative (transport 2.7.4).
//!
//! Nothing here touches the heap, unless there are properties.
//!
//! Invariant: all eleven fields are written.

use bytes::BytesMut;

use super::schema::{Composite, DecodeError, Mandatory, read_map, write_map};
use crate::raw::RawMap;
use crate::types::{FieldReader, Reader, write_bool, write_opt, write_uint};

/// Tells the state of a session's windows and, with a handle, of a link's credit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// The transfer-id expected next; absent until the peer's begin has been seen.
    pub next_incoming_id: Option<u32>,
    /// In transfer frames.
    pub incoming_window: u32,
    /// The transfer-id that will be sent next.
    pub next_outgoing_id: u32,
    /// In transfer frames.
    pub outgoing_window: u32,
    /// The link that the following fields are about; absent for the session alone.
    pub handle: Option<u32>,
    /// The link's count of deliveries.
    pub delivery_count: Option<u32>,
    /// Deliveries that the sender may still send.
    pub link_credit: Option<u32>,
    /// Deliveries that the sender could send with enough credit.
    pub available: Option<u32>,
    /// Whether credit is to be used up at once.
    pub drain: bool,
    /// Whether the peer is asked for its own state.
    pub echo: bool,
    /// Link state properties.
    pub properties: Option<RawMap>,
}

pub(crate) static FLOW: Composite = Composite {
    code: 0x13,
    name: "flow",
    fields: &[
        "next-incoming-id",
        "incoming-window",
        "next-outgoing-id",
        "outgoing-window",
        "handle",
        "delivery-count",
        "link-credit",
        "available",
        "drain",
        "echo",
        "properties",
    ],
};

impl Flow {
    /// Reads the fields of a flow from the list at the front of `reader`; the descriptor is
    /// already read.
    #[inline]
    pub fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        FLOW.decode_whole_list(reader, Self::read)
    }

    #[inline]
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let next_incoming_id = fields.uint()?;
        let incoming_window = fields.uint().mandatory()?;
        let next_outgoing_id = fields.uint().mandatory()?;
        let outgoing_window = fields.uint().mandatory()?;
        let handle = fields.uint()?;
        let delivery_count = fields.uint()?;
        let link_credit = fields.uint()?;
        let available = fields.uint()?;
        let drain = fields.flag()?;
        let echo = fields.flag()?;
        let properties = read_map(fields)?;
        fields.finish()?;
        Ok(Self {
            next_incoming_id,
            incoming_window,
            next_outgoing_id,
            outgoing_window,
            handle,
            delivery_count,
            link_credit,
            available,
            drain,
            echo,
            properties,
        })
    }

    /// Appends the performative, descriptor included, with all eleven fields.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        FLOW.encode(out, |out| {
            write_opt(out, self.next_incoming_id, write_uint);
            write_uint(out, self.incoming_window);
            write_uint(out, self.next_outgoing_id);
            write_uint(out, self.outgoing_window);
            write_opt(out, self.handle, write_uint);
            write_opt(out, self.delivery_count, write_uint);
            write_opt(out, self.link_credit, write_uint);
            write_opt(out, self.available, write_uint);
            write_bool(out, self.drain);
            write_bool(out, self.echo);
            write_map(out, self.properties.as_ref());
        });
    }
}
