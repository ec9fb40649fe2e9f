//! Source, target and coordinator (messaging 3.5.3, 3.5.4, transactions 4.5.1).
//!
//! Invariant: a terminus that was received and not changed is written with the bytes it came as.
//! Clients compare the echo with what they sent.

use bytes::{Bytes, BytesMut};

use super::schema::{Composite, DecodeError, read_map, write_map};
use super::state::{self, DeliveryState};
use crate::guard;
use crate::raw::{RawMap, RawValue};
use crate::types::{
    FieldReader, Malformed, Reader, Symbol, write_bool, write_opt, write_str, write_symbol, write_symbols,
    write_uint,
};

/// The name of a node. The protocol allows any type; strings are what everybody uses.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Address {
    Text(String),
    /// A value of another type, encoded.
    Other(Bytes),
}

impl Address {
    /// The text of a string address.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Option<Self>, Malformed> {
        let Some(bytes) = fields.value()? else { return Ok(None) };
        guard::check_whole_value(bytes).map_err(|error| error.problem)?;
        Ok(Some(match RawValue::first(bytes)?.as_string() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Other(Bytes::copy_from_slice(bytes)),
        }))
    }

    fn write(&self, out: &mut BytesMut) {
        match self {
            Self::Text(text) => write_str(out, text),
            Self::Other(bytes) => out.extend_from_slice(bytes),
        }
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// Source of a link.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub address: Option<Address>,
    /// Terminus durability: 0 none, 1 configuration, 2 unsettled state (messaging 3.5.5).
    pub durable: u32,
    /// Event at which the expiry timer of the terminus starts; absent means the end of the session.
    pub expiry_policy: Option<Symbol>,
    /// Time until the terminus expires, in seconds.
    pub timeout: u32,
    /// Whether the node is to be made on request.
    pub dynamic: bool,
    /// Properties of such a node.
    pub dynamic_node_properties: Option<RawMap>,
    /// `move` or `copy`.
    pub distribution_mode: Option<Symbol>,
    pub filter: Option<RawMap>,
    /// The outcome of deliveries that end without one.
    pub default_outcome: Option<DeliveryState>,
    /// The outcomes that may be used.
    pub outcomes: Vec<Symbol>,
    /// Extensions of the terminus.
    pub capabilities: Vec<Symbol>,
    /// The bytes it came as, descriptor included; absent for one of our own. Written again only
    /// while they still say the same as the fields.
    pub raw: Option<Bytes>,
}

static SOURCE: Composite = Composite {
    code: 0x28,
    name: "source",
    fields: &[
        "address",
        "durable",
        "expiry-policy",
        "timeout",
        "dynamic",
        "dynamic-node-properties",
        "distribution-mode",
        "filter",
        "default-outcome",
        "outcomes",
        "capabilities",
    ],
};

impl Source {
    /// A source at an address.
    pub fn new(address: impl Into<Address>) -> Self {
        Self { address: Some(address.into()), ..Self::default() }
    }

    /// The same source with another filter. All other fields stay as they came.
    #[must_use]
    pub fn with_filter(self, filter: Option<RawMap>) -> Self {
        Self { filter, ..self }
    }

    /// The same source with the address of the node that was made for it.
    #[must_use]
    pub fn with_dynamic_address(self, address: impl Into<Address>) -> Self {
        Self { address: Some(address.into()), dynamic: true, ..self }
    }

    /// Reads the source that `bytes` are, descriptor included.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if !SOURCE.is(reader.descriptor()?) {
            return Err(Malformed::UnexpectedDescriptor.into());
        }
        let source = SOURCE.decode_list(&mut reader, Self::read)?;
        Ok(Self { raw: Some(Bytes::copy_from_slice(bytes)), ..source })
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            address: Address::read(fields)?,
            durable: fields.uint()?.unwrap_or(0),
            expiry_policy: fields.owned_symbol()?,
            timeout: fields.uint()?.unwrap_or(0),
            dynamic: fields.flag()?,
            dynamic_node_properties: read_map(fields)?,
            distribution_mode: fields.owned_symbol()?,
            filter: read_map(fields)?,
            default_outcome: state::read_field(fields)?,
            outcomes: fields.symbols()?,
            capabilities: fields.symbols()?,
            raw: None,
        })
    }

    /// Appends the source, descriptor included: with the bytes it came as while its fields still
    /// say the same, else with all eleven fields.
    pub fn encode(&self, out: &mut BytesMut) {
        if let Some(raw) = &self.raw
            && Self::decode(raw).is_ok_and(|original| original == *self)
        {
            return out.extend_from_slice(raw);
        }
        SOURCE.encode(out, |out| {
            write_opt(out, self.address.as_ref(), |out, address| address.write(out));
            write_uint(out, self.durable);
            write_opt(out, self.expiry_policy.as_ref(), write_symbol);
            write_uint(out, self.timeout);
            write_bool(out, self.dynamic);
            write_map(out, self.dynamic_node_properties.as_ref());
            write_opt(out, self.distribution_mode.as_ref(), write_symbol);
            write_map(out, self.filter.as_ref());
            write_opt(out, self.default_outcome.as_ref(), |out, outcome| outcome.encode(out));
            write_symbols(out, &self.outcomes);
            write_symbols(out, &self.capabilities);
        });
    }
}

impl PartialEq for Source {
    /// Equal in what the fields say, however they came.
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
            && self.durable == other.durable
            && self.expiry_policy == other.expiry_policy
            && self.timeout == other.timeout
            && self.dynamic == other.dynamic
            && self.dynamic_node_properties == other.dynamic_node_properties
            && self.distribution_mode == other.distribution_mode
            && self.filter == other.filter
            && self.default_outcome == other.default_outcome
            && self.outcomes == other.outcomes
            && self.capabilities == other.capabilities
    }
}

/// Target of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A node, or with a null address the anonymous terminus.
    Terminus(TargetTerminus),
    Coordinator {
        /// Transaction capabilities that are offered or desired (transactions 4.5.1).
        capabilities: Vec<Symbol>,
    },
}

/// A target that is a node.
#[derive(Clone, Debug, Default)]
pub struct TargetTerminus {
    /// The node; absent for the anonymous terminus.
    pub address: Option<Address>,
    /// Terminus durability: 0 none, 1 configuration, 2 unsettled state (messaging 3.5.5).
    pub durable: u32,
    /// Event at which the expiry timer of the terminus starts; absent means the end of the session.
    pub expiry_policy: Option<Symbol>,
    /// Time until the terminus expires, in seconds.
    pub timeout: u32,
    /// Whether the node is to be made on request.
    pub dynamic: bool,
    /// Properties of such a node.
    pub dynamic_node_properties: Option<RawMap>,
    /// Extensions of the terminus.
    pub capabilities: Vec<Symbol>,
    /// The bytes it came as, descriptor included; absent for one of our own. Written again only
    /// while they still say the same as the fields.
    pub raw: Option<Bytes>,
}

static TARGET: Composite = Composite {
    code: 0x29,
    name: "target",
    fields: &[
        "address",
        "durable",
        "expiry-policy",
        "timeout",
        "dynamic",
        "dynamic-node-properties",
        "capabilities",
    ],
};
static COORDINATOR: Composite = Composite { code: 0x30, name: "coordinator", fields: &["capabilities"] };

impl Target {
    /// A target at an address.
    pub fn new(address: impl Into<Address>) -> Self {
        Self::Terminus(TargetTerminus { address: Some(address.into()), ..Default::default() })
    }

    /// The address of a terminus.
    pub const fn address(&self) -> Option<&Address> {
        match self {
            Self::Terminus(terminus) => terminus.address.as_ref(),
            Self::Coordinator { .. } => None,
        }
    }

    /// Reads the target that `bytes` are, descriptor included.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let descriptor = reader.descriptor()?;
        if TARGET.is(descriptor) {
            let terminus = TARGET.decode_list(&mut reader, TargetTerminus::read)?;
            let raw = Some(Bytes::copy_from_slice(bytes));
            Ok(Self::Terminus(TargetTerminus { raw, ..terminus }))
        } else if COORDINATOR.is(descriptor) {
            COORDINATOR
                .decode_list(&mut reader, |fields| Ok(Self::Coordinator { capabilities: fields.symbols()? }))
        } else {
            Err(Malformed::UnexpectedDescriptor.into())
        }
    }

    /// Appends the target, descriptor included: with the bytes it came as while its fields still
    /// say the same, else with all its fields.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Terminus(terminus) => terminus.encode(out),
            Self::Coordinator { capabilities } => {
                COORDINATOR.encode(out, |out| write_symbols(out, capabilities));
            }
        }
    }
}

impl TargetTerminus {
    /// The same target with the address of the node that was made for it.
    #[must_use]
    pub fn with_dynamic_address(self, address: impl Into<Address>) -> Self {
        Self { address: Some(address.into()), dynamic: true, ..self }
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            address: Address::read(fields)?,
            durable: fields.uint()?.unwrap_or(0),
            expiry_policy: fields.owned_symbol()?,
            timeout: fields.uint()?.unwrap_or(0),
            dynamic: fields.flag()?,
            dynamic_node_properties: read_map(fields)?,
            capabilities: fields.symbols()?,
            raw: None,
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        if let Some(raw) = &self.raw
            && matches!(Target::decode(raw), Ok(Target::Terminus(original)) if original == *self)
        {
            return out.extend_from_slice(raw);
        }
        TARGET.encode(out, |out| {
            write_opt(out, self.address.as_ref(), |out, address| address.write(out));
            write_uint(out, self.durable);
            write_opt(out, self.expiry_policy.as_ref(), write_symbol);
            write_uint(out, self.timeout);
            write_bool(out, self.dynamic);
            write_map(out, self.dynamic_node_properties.as_ref());
            write_symbols(out, &self.capabilities);
        });
    }
}

impl PartialEq for TargetTerminus {
    /// Equal in what the fields say, however they came.
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
            && self.durable == other.durable
            && self.expiry_policy == other.expiry_policy
            && self.timeout == other.timeout
            && self.dynamic == other.dynamic
            && self.dynamic_node_properties == other.dynamic_node_properties
            && self.capabilities == other.capabilities
    }
}
