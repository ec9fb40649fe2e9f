//! Open, begin, end and close (transport 2.7.1, 2.7.2, 2.7.8, 2.7.9).
//!
//! Invariant: an absent field reads as the default that the specification gives it.

use bytes::BytesMut;

use super::error::Error;
use super::schema::{Composite, DecodeError, Mandatory, read_map, write_map};
use crate::raw::RawMap;
use crate::types::{
    FieldReader, Reader, Symbol, write_opt, write_str, write_symbols, write_uint, write_ushort,
};

/// Says who a peer is, and what it can take.
#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    /// The peer's own name.
    pub container_id: String,
    /// The name of the host (or tenant) that the peer wants to reach.
    pub hostname: Option<String>,
    /// The largest frame the peer accepts, in bytes; the default is no limit.
    pub max_frame_size: u32,
    /// The highest channel number the peer accepts.
    pub channel_max: u16,
    /// In milliseconds.
    pub idle_time_out: Option<u32>,
    /// Locales for what the peer sends.
    pub outgoing_locales: Vec<Symbol>,
    /// Locales for what the peer wants.
    pub incoming_locales: Vec<Symbol>,
    /// Extensions the peer supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions the peer would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Further properties.
    pub properties: Option<RawMap>,
}

static OPEN: Composite = Composite {
    code: 0x10,
    name: "open",
    fields: &[
        "container-id",
        "hostname",
        "max-frame-size",
        "channel-max",
        "idle-time-out",
        "outgoing-locales",
        "incoming-locales",
        "offered-capabilities",
        "desired-capabilities",
        "properties",
    ],
};

impl Open {
    /// An open with nothing but a name.
    pub fn new(container_id: impl Into<String>) -> Self {
        Self {
            container_id: container_id.into(),
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_time_out: None,
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        OPEN.decode_list(reader, |fields| {
            Ok(Self {
                container_id: fields.string().mandatory()?.to_owned(),
                hostname: fields.string()?.map(str::to_owned),
                max_frame_size: fields.uint()?.unwrap_or(u32::MAX),
                channel_max: fields.ushort()?.unwrap_or(u16::MAX),
                idle_time_out: fields.uint()?,
                outgoing_locales: fields.symbols()?,
                incoming_locales: fields.symbols()?,
                offered_capabilities: fields.symbols()?,
                desired_capabilities: fields.symbols()?,
                properties: read_map(fields)?,
            })
        })
    }

    /// Appends the performative, descriptor included, with all ten fields.
    pub fn encode(&self, out: &mut BytesMut) {
        OPEN.encode(out, |out| {
            write_str(out, &self.container_id);
            write_opt(out, self.hostname.as_deref(), write_str);
            write_uint(out, self.max_frame_size);
            write_ushort(out, self.channel_max);
            write_opt(out, self.idle_time_out, write_uint);
            write_symbols(out, &self.outgoing_locales);
            write_symbols(out, &self.incoming_locales);
            write_symbols(out, &self.offered_capabilities);
            write_symbols(out, &self.desired_capabilities);
            write_map(out, self.properties.as_ref());
        });
    }
}

/// Begins a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    /// The channel of the begin that this one answers; absent on the first of the two.
    pub remote_channel: Option<u16>,
    /// The transfer-id of the first transfer that will be sent.
    pub next_outgoing_id: u32,
    /// In transfer frames.
    pub incoming_window: u32,
    /// In transfer frames.
    pub outgoing_window: u32,
    /// The highest handle the peer accepts.
    pub handle_max: u32,
    /// Extensions the peer supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions the peer would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Further properties.
    pub properties: Option<RawMap>,
}

static BEGIN: Composite = Composite {
    code: 0x11,
    name: "begin",
    fields: &[
        "remote-channel",
        "next-outgoing-id",
        "incoming-window",
        "outgoing-window",
        "handle-max",
        "offered-capabilities",
        "desired-capabilities",
        "properties",
    ],
};

impl Begin {
    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        BEGIN.decode_list(reader, |fields| {
            Ok(Self {
                remote_channel: fields.ushort()?,
                next_outgoing_id: fields.uint().mandatory()?,
                incoming_window: fields.uint().mandatory()?,
                outgoing_window: fields.uint().mandatory()?,
                handle_max: fields.uint()?.unwrap_or(u32::MAX),
                offered_capabilities: fields.symbols()?,
                desired_capabilities: fields.symbols()?,
                properties: read_map(fields)?,
            })
        })
    }

    /// Appends the performative, descriptor included, with all eight fields.
    pub fn encode(&self, out: &mut BytesMut) {
        BEGIN.encode(out, |out| {
            write_opt(out, self.remote_channel, write_ushort);
            write_uint(out, self.next_outgoing_id);
            write_uint(out, self.incoming_window);
            write_uint(out, self.outgoing_window);
            write_uint(out, self.handle_max);
            write_symbols(out, &self.offered_capabilities);
            write_symbols(out, &self.desired_capabilities);
            write_map(out, self.properties.as_ref());
        });
    }
}

/// Ends a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// Absent when the end is ordinary.
    pub error: Option<Error>,
}

static END: Composite = Composite { code: 0x17, name: "end", fields: &["error"] };

impl End {
    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        END.decode_list(reader, |fields| Ok(Self { error: read_error(fields)? }))
    }

    /// Appends the performative, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        END.encode(out, |out| write_error(out, self.error.as_ref()));
    }
}

/// Closes a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Close {
    /// Absent when the end is ordinary.
    pub error: Option<Error>,
}

static CLOSE: Composite = Composite { code: 0x18, name: "close", fields: &["error"] };

impl Close {
    pub(super) fn decode_list(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        CLOSE.decode_list(reader, |fields| Ok(Self { error: read_error(fields)? }))
    }

    /// Appends the performative, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        CLOSE.encode(out, |out| write_error(out, self.error.as_ref()));
    }
}

pub(super) fn read_error(fields: &mut FieldReader<'_>) -> Result<Option<Error>, DecodeError> {
    Error::read_field(fields)
}

pub(super) fn write_error(out: &mut BytesMut, error: Option<&Error>) {
    write_opt(out, error, |out, error| error.encode(out));
}
