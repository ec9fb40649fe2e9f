//! Delivery states and outcomes (messaging 3.4, transactions 4.5.5).
//!
//! Invariant: a state we do not know passes through with the bytes it came as.

use bytes::{BufMut, Bytes, BytesMut};

use super::error::Error;
use super::schema::{Composite, DecodeError, Mandatory, read_map, write_map};
use crate::guard;
use crate::raw::RawMap;
use crate::types::{
    FieldReader, Malformed, Reader, code, write_binary, write_bool, write_opt, write_uint, write_ulong,
};

/// State of a delivery, terminal (an outcome) or not.
///
/// Variants of more than two machine words are boxed: states travel inside of every
/// transfer and disposition, and almost all of them are `Accepted`.
#[derive(Clone, Debug, PartialEq)]
#[repr(u64)]
pub enum DeliveryState {
    /// Outcome: taken care of.
    Accepted,
    /// Outcome: invalid, with the reason if one was given.
    Rejected(Option<Box<Error>>),
    /// Outcome: not processed and given back.
    Released,
    /// Outcome: given back, changed.
    Modified(Box<Modified>),
    /// Not an outcome: how much of it has arrived.
    Received {
        /// The section that the position is in, counted from 0.
        section_number: u32,
        /// Bytes of that section that have arrived.
        section_offset: u64,
    },
    /// Outcome of a declare: the transaction that was begun.
    Declared { txn_id: TxnId },
    /// Outcome that takes effect when the transaction commits (transactions 4.5.8).
    Transactional {
        txn_id: TxnId,
        /// The outcome then; absent for a posting.
        outcome: Option<Box<Self>>,
    },
    /// Any other described value, encoded.
    Other(Box<Bytes>),
}

/// The name that a coordinator gave a transaction.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TxnId(Box<Bytes>);

impl TxnId {
    /// The name.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl From<Bytes> for TxnId {
    fn from(id: Bytes) -> Self {
        Self(Box::new(id))
    }
}

impl From<&[u8]> for TxnId {
    fn from(id: &[u8]) -> Self {
        Bytes::copy_from_slice(id).into()
    }
}

impl std::ops::Deref for TxnId {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Outcome modified: the delivery returns with these changes (messaging 3.4.5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modified {
    /// Counts as an unsuccessful attempt.
    pub delivery_failed: Option<bool>,
    /// Not to be sent to this link again.
    pub undeliverable_here: Option<bool>,
    /// Annotations to merge into the message's own.
    pub message_annotations: Option<RawMap>,
}

static RECEIVED: Composite =
    Composite { code: 0x23, name: "received", fields: &["section-number", "section-offset"] };
static ACCEPTED: Composite = Composite { code: 0x24, name: "accepted", fields: &[] };
static REJECTED: Composite = Composite { code: 0x25, name: "rejected", fields: &["error"] };
static RELEASED: Composite = Composite { code: 0x26, name: "released", fields: &[] };
static MODIFIED: Composite = Composite {
    code: 0x27,
    name: "modified",
    fields: &["delivery-failed", "undeliverable-here", "message-annotations"],
};
static DECLARED: Composite = Composite { code: 0x33, name: "declared", fields: &["txn-id"] };
static TRANSACTIONAL: Composite =
    Composite { code: 0x34, name: "transactional-state", fields: &["txn-id", "outcome"] };

/// Reads a field that holds a state.
#[inline]
pub(crate) fn read_field(fields: &mut FieldReader<'_>) -> Result<Option<DeliveryState>, DecodeError> {
    // The common ones, in the form that everybody writes.
    if fields.skip_null() {
        return Ok(None);
    }
    if fields.skip_known([code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_0]) {
        return Ok(Some(DeliveryState::Accepted));
    }
    match fields.out_of_line(FieldReader::rare_value)? {
        None => Ok(None),
        Some(bytes) => DeliveryState::decode(bytes).map(Some),
    }
}

impl DeliveryState {
    /// Whether it ends the delivery (messaging 3.4): everything but `received`, a posting in a
    /// transaction, and what we do not know.
    pub const fn is_outcome(&self) -> bool {
        match self {
            Self::Accepted
            | Self::Rejected(_)
            | Self::Released
            | Self::Modified(_)
            | Self::Declared { .. } => true,
            Self::Transactional { outcome, .. } => outcome.is_some(),
            Self::Received { .. } | Self::Other(_) => false,
        }
    }

    /// Reads the state that `bytes` are, descriptor included.
    #[cold]
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        // A state nests through transactional-state, so nothing is read that the guard has not
        // passed: that bounds the recursion.
        guard::check_whole_value(bytes)?;
        Self::decode_guarded(bytes)
    }

    fn decode_guarded(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let descriptor = reader.descriptor()?;
        let reader = &mut reader;
        if ACCEPTED.is(descriptor) {
            ACCEPTED.decode_list(reader, |_| Ok(Self::Accepted))
        } else if RELEASED.is(descriptor) {
            RELEASED.decode_list(reader, |_| Ok(Self::Released))
        } else if REJECTED.is(descriptor) {
            REJECTED
                .decode_list(reader, |fields| Ok(Self::Rejected(Error::read_field(fields)?.map(Box::new))))
        } else if MODIFIED.is(descriptor) {
            MODIFIED.decode_list(reader, |fields| Ok(Self::Modified(Box::new(Modified::read(fields)?))))
        } else if RECEIVED.is(descriptor) {
            RECEIVED.decode_list(reader, |fields| {
                Ok(Self::Received {
                    section_number: fields.uint().mandatory()?,
                    section_offset: fields.ulong().mandatory()?,
                })
            })
        } else if DECLARED.is(descriptor) {
            DECLARED.decode_list(reader, |fields| Ok(Self::Declared { txn_id: txn_id(fields)? }))
        } else if TRANSACTIONAL.is(descriptor) {
            TRANSACTIONAL.decode_list(reader, |fields| {
                Ok(Self::Transactional {
                    txn_id: txn_id(fields)?,
                    outcome: match fields.value()? {
                        None => None,
                        Some(outcome) => Some(Box::new(Self::decode_guarded(outcome)?)),
                    },
                })
            })
        } else {
            Ok(Self::Other(Box::new(Bytes::copy_from_slice(bytes))))
        }
    }

    /// Appends the state, descriptor included.
    #[inline]
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Accepted => out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x24, code::LIST_0]),
            Self::Released => out.put_slice(&[code::DESCRIBED, code::SMALL_ULONG, 0x26, code::LIST_0]),
            other => other.encode_fields(out),
        }
    }

    #[cold]
    fn encode_fields(&self, out: &mut BytesMut) {
        match self {
            Self::Accepted => ACCEPTED.encode(out, |_| {}),
            Self::Released => RELEASED.encode(out, |_| {}),
            Self::Rejected(error) => REJECTED.encode(out, |out| {
                write_opt(out, error.as_deref(), |out, error| error.encode(out));
            }),
            Self::Modified(modified) => MODIFIED.encode(out, |out| modified.write(out)),
            Self::Received { section_number, section_offset } => RECEIVED.encode(out, |out| {
                write_uint(out, *section_number);
                write_ulong(out, *section_offset);
            }),
            Self::Declared { txn_id } => DECLARED.encode(out, |out| write_binary(out, txn_id)),
            Self::Transactional { txn_id, outcome } => TRANSACTIONAL.encode(out, |out| {
                write_binary(out, txn_id);
                write_opt(out, outcome.as_deref(), |out, outcome| outcome.encode(out));
            }),
            Self::Other(bytes) => out.put_slice(bytes),
        }
    }
}

/// The mandatory name of a transaction.
pub(super) fn txn_id(fields: &mut FieldReader<'_>) -> Result<TxnId, Malformed> {
    fields.binary().mandatory().map(TxnId::from)
}

impl Modified {
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            delivery_failed: fields.boolean()?,
            undeliverable_here: fields.boolean()?,
            message_annotations: read_map(fields)?,
        })
    }

    fn write(&self, out: &mut BytesMut) {
        write_opt(out, self.delivery_failed, write_bool);
        write_opt(out, self.undeliverable_here, write_bool);
        write_map(out, self.message_annotations.as_ref());
    }
}
