//! The bodies of SASL frames (security 5.3.3).
//!
//! Invariant: an absent response is told apart from an empty one.

use bytes::{Bytes, BytesMut};

use super::schema::{Composite, DecodeError, Mandatory};
use crate::types::{
    FieldReader, Malformed, Reader, Symbol, write_binary, write_opt, write_str, write_symbol, write_symbols,
    write_ubyte,
};

/// The body of a SASL frame.
#[derive(Clone, Debug, PartialEq)]
pub enum SaslFrame {
    Mechanisms(SaslMechanisms),
    Init(SaslInit),
    Challenge(SaslChallenge),
    Response(SaslResponse),
    Outcome(SaslOutcome),
}

/// The mechanisms that the server offers.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslMechanisms {
    /// The names of the mechanisms.
    pub mechanisms: Vec<Symbol>,
}

/// The mechanism that the client chose, and its initial response.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslInit {
    /// The name of the mechanism.
    pub mechanism: Symbol,
    /// The mechanism's first words; absent is not the same as empty.
    pub initial_response: Option<Bytes>,
    /// The name of the host that the client wants to reach.
    pub hostname: Option<String>,
}

/// A question of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslChallenge {
    /// In the mechanism's own form.
    pub challenge: Bytes,
}

/// The client's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslResponse {
    /// In the mechanism's own form.
    pub response: Bytes,
}

/// Outcome of the negotiation.
#[derive(Clone, Debug, PartialEq)]
pub struct SaslOutcome {
    pub code: SaslCode,
    /// The mechanism's last words.
    pub additional_data: Option<Bytes>,
}

/// The result of a negotiation (security 5.3.3.6).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum SaslCode {
    /// 0: authenticated.
    Ok,
    /// 1: wrong credentials.
    Auth,
    /// 2: the system failed.
    Sys,
    /// 3: the system failed and will not recover.
    SysPerm,
    /// 4: the system failed for now.
    SysTemp,
}

impl SaslCode {
    /// The wire's number for this result.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Auth => 1,
            Self::Sys => 2,
            Self::SysPerm => 3,
            Self::SysTemp => 4,
        }
    }

    /// The result for a number of the wire.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Ok),
            1 => Some(Self::Auth),
            2 => Some(Self::Sys),
            3 => Some(Self::SysPerm),
            4 => Some(Self::SysTemp),
            _ => None,
        }
    }
}

static MECHANISMS: Composite =
    Composite { code: 0x40, name: "sasl-mechanisms", fields: &["sasl-server-mechanisms"] };
static INIT: Composite =
    Composite { code: 0x41, name: "sasl-init", fields: &["mechanism", "initial-response", "hostname"] };
static CHALLENGE: Composite = Composite { code: 0x42, name: "sasl-challenge", fields: &["challenge"] };
static RESPONSE: Composite = Composite { code: 0x43, name: "sasl-response", fields: &["response"] };
static OUTCOME: Composite =
    Composite { code: 0x44, name: "sasl-outcome", fields: &["code", "additional-data"] };

/// Reads the body of a SASL frame, which nothing may follow.
pub fn decode_sasl(body: &Bytes) -> Result<SaslFrame, DecodeError> {
    let mut reader = Reader::new(body);
    let descriptor = reader.descriptor()?;
    let frame = if MECHANISMS.is(descriptor) {
        MECHANISMS.decode_list(&mut reader, |fields| {
            Ok(SaslFrame::Mechanisms(SaslMechanisms { mechanisms: fields.symbols()? }))
        })?
    } else if INIT.is(descriptor) {
        INIT.decode_list(&mut reader, |fields| Ok(SaslFrame::Init(SaslInit::read(fields)?)))?
    } else if CHALLENGE.is(descriptor) {
        CHALLENGE.decode_list(&mut reader, |fields| {
            Ok(SaslFrame::Challenge(SaslChallenge { challenge: copied(fields).mandatory()? }))
        })?
    } else if RESPONSE.is(descriptor) {
        RESPONSE.decode_list(&mut reader, |fields| {
            Ok(SaslFrame::Response(SaslResponse { response: copied(fields).mandatory()? }))
        })?
    } else if OUTCOME.is(descriptor) {
        OUTCOME.decode_list(&mut reader, |fields| Ok(SaslFrame::Outcome(SaslOutcome::read(fields)?)))?
    } else {
        return Err(Malformed::UnexpectedDescriptor.into());
    };
    if reader.is_empty() { Ok(frame) } else { Err(Malformed::SizeMismatch.into()) }
}

fn copied(fields: &mut FieldReader<'_>) -> Result<Option<Bytes>, Malformed> {
    Ok(fields.binary()?.map(Bytes::copy_from_slice))
}

impl SaslFrame {
    /// Appends the body, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Mechanisms(mechanisms) => mechanisms.encode(out),
            Self::Init(init) => init.encode(out),
            Self::Challenge(challenge) => challenge.encode(out),
            Self::Response(response) => response.encode(out),
            Self::Outcome(outcome) => outcome.encode(out),
        }
    }
}

impl SaslMechanisms {
    /// Appends the body, descriptor included. One mechanism is an array too.
    pub fn encode(&self, out: &mut BytesMut) {
        MECHANISMS.encode(out, |out| write_symbols(out, &self.mechanisms));
    }
}

impl SaslInit {
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            mechanism: fields.owned_symbol().mandatory()?,
            initial_response: copied(fields)?,
            hostname: fields.string()?.map(str::to_owned),
        })
    }

    /// Appends the body, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        INIT.encode(out, |out| {
            write_symbol(out, &self.mechanism);
            write_opt(out, self.initial_response.as_deref(), write_binary);
            write_opt(out, self.hostname.as_deref(), write_str);
        });
    }
}

impl SaslChallenge {
    /// Appends the body, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        CHALLENGE.encode(out, |out| write_binary(out, &self.challenge));
    }
}

impl SaslResponse {
    /// Appends the body, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        RESPONSE.encode(out, |out| write_binary(out, &self.response));
    }
}

impl SaslOutcome {
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let code = fields.ubyte().mandatory()?;
        Ok(Self {
            code: SaslCode::from_code(code).ok_or(Malformed::OutOfRange(code.into()))?,
            additional_data: copied(fields)?,
        })
    }

    /// Appends the body, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        OUTCOME.encode(out, |out| {
            write_ubyte(out, self.code.code());
            write_opt(out, self.additional_data.as_deref(), write_binary);
        });
    }
}
