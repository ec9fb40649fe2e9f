//! Declare and discharge, the amqp-value bodies that a transaction controller sends to the coordinator
//! (transactions 4.5.2, 4.5.3).
//!
//! Invariant: a discharge always names its transaction.

use bytes::{Bytes, BytesMut};

use super::schema::{Composite, DecodeError};
use super::state::{TxnId, txn_id};
use crate::types::{Malformed, Reader, write_binary, write_bool, write_opt};

/// Asks for a new transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declare {
    /// The name of a distributed transaction, encoded; nobody uses it.
    pub global_id: Option<Bytes>,
}

/// Ends a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Discharge {
    pub txn_id: TxnId,
    /// Whether to roll back instead of to commit.
    pub fail: bool,
}

static DECLARE: Composite = Composite { code: 0x31, name: "declare", fields: &["global-id"] };
static DISCHARGE: Composite = Composite { code: 0x32, name: "discharge", fields: &["txn-id", "fail"] };

impl Declare {
    /// Reads the declare that `bytes` are, descriptor included.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if !DECLARE.is(reader.descriptor()?) {
            return Err(Malformed::UnexpectedDescriptor.into());
        }
        DECLARE.decode_list(&mut reader, |fields| {
            Ok(Self { global_id: fields.value()?.map(Bytes::copy_from_slice) })
        })
    }

    /// Appends the declare, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        DECLARE.encode(out, |out| {
            write_opt(out, self.global_id.as_ref(), |out, id| out.extend_from_slice(id));
        });
    }
}

impl Discharge {
    /// Reads the discharge that `bytes` are, descriptor included.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if !DISCHARGE.is(reader.descriptor()?) {
            return Err(Malformed::UnexpectedDescriptor.into());
        }
        DISCHARGE
            .decode_list(&mut reader, |fields| Ok(Self { txn_id: txn_id(fields)?, fail: fields.flag()? }))
    }

    /// Appends the discharge, descriptor included.
    pub fn encode(&self, out: &mut BytesMut) {
        DISCHARGE.encode(out, |out| {
            write_binary(out, &self.txn_id);
            write_bool(out, self.fail);
        });
    }
}
