//! The attach performative (transport 2.7.3).
//!
//! Invariant: an attach with null on either side is told apart from one with an empty terminus.

use bytes::BytesMut;

use super::schema::{Composite, DecodeError, Mandatory, read_map, write_map};
use super::terminus::{Source, Target};
use crate::raw::RawMap;
use crate::types::{
    FieldReader, Reader, ReceiverSettleMode, Role, SenderSettleMode, Symbol, write_bool, write_opt,
    write_str, write_symbols, write_ubyte, write_uint, write_ulong,
};

/// Attaches a link to a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    pub name: String,
    /// The number that the speaker will use for the link.
    pub handle: u32,
    /// Which end the speaker is.
    pub role: Role,
    /// Absent means mixed.
    pub snd_settle_mode: Option<SenderSettleMode>,
    /// Settlement mode of the receiver; absent means first.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// Null from a sender that refuses the link.
    pub source: Option<Source>,
    /// Null from a receiver that refuses the link.
    pub target: Option<Target>,
    /// Deliveries the speaker knows to be unsettled: delivery-tag to state.
    pub unsettled: Option<RawMap>,
    /// Whether there are more of them than fit.
    pub incomplete_unsettled: bool,
    /// The sender's count of deliveries; must be there from a sender.
    pub initial_delivery_count: Option<u32>,
    /// The largest message the speaker takes, in bytes; absent and 0 mean no limit.
    pub max_message_size: Option<u64>,
    /// Extensions the speaker supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions the speaker would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Further properties.
    pub properties: Option<RawMap>,
}

static ATTACH: Composite = Composite {
    code: 0x12,
    name: "attach",
    fields: &[
        "name",
        "handle",
        "role",
        "snd-settle-mode",
        "rcv-settle-mode",
        "source",
        "target",
        "unsettled",
        "incomplete-unsettled",
        "initial-delivery-count",
        "max-message-size",
        "offered-capabilities",
        "desired-capabilities",
        "properties",
    ],
};

impl Attach {
    /// An attach with nothing but what is mandatory.
    pub fn new(name: impl Into<String>, handle: u32, role: Role) -> Self {
        Self {
            name: name.into(),
            handle,
            role,
            snd_settle_mode: None,
            rcv_settle_mode: None,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        ATTACH.decode_list(reader, Self::read)
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: fields.string().mandatory()?.to_owned(),
            handle: fields.uint().mandatory()?,
            role: Role::from(fields.boolean().mandatory()?),
            snd_settle_mode: fields.sender_settle_mode()?,
            rcv_settle_mode: fields.receiver_settle_mode()?,
            source: fields.value()?.map(Source::decode).transpose()?,
            target: fields.value()?.map(Target::decode).transpose()?,
            unsettled: read_map(fields)?,
            incomplete_unsettled: fields.flag()?,
            initial_delivery_count: fields.uint()?,
            max_message_size: fields.ulong()?,
            offered_capabilities: fields.symbols()?,
            desired_capabilities: fields.symbols()?,
            properties: read_map(fields)?,
        })
    }

    /// Appends the performative, descriptor included, with all fourteen fields.
    pub fn encode(&self, out: &mut BytesMut) {
        ATTACH.encode(out, |out| {
            write_str(out, &self.name);
            write_uint(out, self.handle);
            write_bool(out, self.role.is_receiver());
            write_opt(out, self.snd_settle_mode, |out, mode| write_ubyte(out, mode.code()));
            write_opt(out, self.rcv_settle_mode, |out, mode| write_ubyte(out, mode.code()));
            write_opt(out, self.source.as_ref(), |out, source| source.encode(out));
            write_opt(out, self.target.as_ref(), |out, target| target.encode(out));
            write_map(out, self.unsettled.as_ref());
            write_bool(out, self.incomplete_unsettled);
            write_opt(out, self.initial_delivery_count, write_uint);
            write_opt(out, self.max_message_size, write_ulong);
            write_symbols(out, &self.offered_capabilities);
            write_symbols(out, &self.desired_capabilities);
            write_map(out, self.properties.as_ref());
        });
    }
}
