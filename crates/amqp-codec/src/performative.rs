//! The bodies of frames: the nine performatives of the transport, the five of SASL, and what they
//! carry (termini, states, errors).
//!
//! Transfer, disposition and flow are read and written without allocation. All lists are written
//! with all their fields and all descriptors as `00 53 xx`, which some clients depend on.
//!
//! Invariant: what is encoded decodes to an equal value, and decoding never reads past the body.

mod attach;
mod connection;
mod detach;
mod disposition;
mod error;
mod flow;

mod sasl;
mod schema;
mod state;
mod terminus;
mod transfer;
mod txn;

pub use attach::Attach;
pub use connection::{Begin, Close, End, Open};
pub use detach::Detach;
pub use disposition::Disposition;
pub use error::Error;
pub use flow::Flow;
pub use sasl::{
    SaslChallenge, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse, decode_sasl,
};
pub use schema::{DecodeError, PerformativeKind};
pub use state::{DeliveryState, Modified, TxnId};
pub use terminus::{Address, Source, Target, TargetTerminus};
pub use transfer::Transfer;
pub use txn::{Declare, Discharge};

use bytes::{Buf, Bytes, BytesMut};

use crate::types::{Malformed, Reader};

/// The body of an AMQP frame, without the payload of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub enum Performative {
    Open(Box<Open>),
    Begin(Box<Begin>),
    Attach(Box<Attach>),
    Flow(Flow),
    Transfer(Transfer),
    Disposition(Disposition),
    Detach(Box<Detach>),
    End(Box<End>),
    Close(Box<Close>),
}

/// Reads the performative at the start of `body` (what follows the frame's header, extended header
/// excluded) and returns it with the rest, which is the payload of a transfer.
#[inline]
pub fn decode(body: &Bytes) -> Result<(Performative, Bytes), DecodeError> {
    let mut rest = body.clone();
    let performative = decode_front(&mut rest)?;
    Ok((performative, rest))
}

/// Like [`decode`], but takes the performative off the front of `body`, which saves counting one
/// more reference to the buffer. After an error `body` is unchanged.
#[inline]
pub fn decode_front(body: &mut Bytes) -> Result<Performative, DecodeError> {
    let (performative, length) = decode_prefix(body)?;
    body.advance(length);
    Ok(performative)
}

/// Reads the performative at the start of `body` and says how many bytes of it that is.
#[inline]
pub fn decode_prefix(body: &[u8]) -> Result<(Performative, usize), DecodeError> {
    let mut reader = Reader::new(body);
    let performative = read(&mut reader)?;
    Ok((performative, body.len() - reader.rest().len()))
}

#[inline]
fn read(reader: &mut Reader<'_>) -> Result<Performative, DecodeError> {
    let descriptor = reader.descriptor()?;
    let kind = PerformativeKind::of(descriptor).ok_or(Malformed::UnexpectedDescriptor)?;
    let named = |error: DecodeError| error.in_performative(kind);
    Ok(match kind {
        PerformativeKind::Transfer => Performative::Transfer(Transfer::decode_list(reader).map_err(named)?),
        PerformativeKind::Disposition => {
            Performative::Disposition(Disposition::decode_list(reader).map_err(named)?)
        }
        PerformativeKind::Flow => Performative::Flow(Flow::decode_list(reader).map_err(named)?),
        cold => read_cold(cold, reader).map_err(named)?,
    })
}

#[cold]
fn read_cold(kind: PerformativeKind, reader: &mut Reader<'_>) -> Result<Performative, DecodeError> {
    Ok(match kind {
        PerformativeKind::Open => Performative::Open(Box::new(Open::decode_list(reader)?)),
        PerformativeKind::Begin => Performative::Begin(Box::new(Begin::decode_list(reader)?)),
        PerformativeKind::Attach => Performative::Attach(Box::new(Attach::decode_list(reader)?)),
        PerformativeKind::Detach => Performative::Detach(Box::new(Detach::decode_list(reader)?)),
        PerformativeKind::End => Performative::End(Box::new(End::decode_list(reader)?)),
        PerformativeKind::Close => Performative::Close(Box::new(Close::decode_list(reader)?)),
        PerformativeKind::Flow | PerformativeKind::Transfer | PerformativeKind::Disposition => {
            return Err(Malformed::UnexpectedDescriptor.into());
        }
    })
}

impl Performative {
    /// Which of the nine it is.
    pub const fn kind(&self) -> PerformativeKind {
        match self {
            Self::Open(_) => PerformativeKind::Open,
            Self::Begin(_) => PerformativeKind::Begin,
            Self::Attach(_) => PerformativeKind::Attach,
            Self::Flow(_) => PerformativeKind::Flow,
            Self::Transfer(_) => PerformativeKind::Transfer,
            Self::Disposition(_) => PerformativeKind::Disposition,
            Self::Detach(_) => PerformativeKind::Detach,
            Self::End(_) => PerformativeKind::End,
            Self::Close(_) => PerformativeKind::Close,
        }
    }

    /// Appends the performative, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Open(open) => open.encode(out),
            Self::Begin(begin) => begin.encode(out),
            Self::Attach(attach) => attach.encode(out),
            Self::Flow(flow) => flow.encode(out),
            Self::Transfer(transfer) => transfer.encode(out),
            Self::Disposition(disposition) => disposition.encode(out),
            Self::Detach(detach) => detach.encode(out),
            Self::End(end) => end.encode(out),
            Self::Close(close) => close.encode(out),
        }
    }
}

#[cfg(test)]
mod tests;
