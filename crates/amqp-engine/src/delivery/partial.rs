//! A delivery of which more transfers are to come.
//!
//! Invariant: the gathered payload is the payloads of the transfers, in order.

use amqp_codec::performative::{DeliveryState, Transfer};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode};
use bytes::BytesMut;

use crate::event::IncomingDelivery;
use crate::ids::{DeliveryId, LinkKey};

/// The front of a delivery.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) id: u32,
    pub(crate) tag: DeliveryTag,
    pub(crate) message_format: u32,
    /// Whether its first transfer said settled.
    pub(crate) settled_at_first: bool,
    /// Whether any transfer so far said settled.
    pub(crate) settled: bool,
    pub(crate) resume: bool,
    pub(crate) mode: ReceiverSettleMode,
    pub(crate) state: Option<DeliveryState>,
    payload: BytesMut,
}

/// How a transfer that continues a delivery contradicts its first one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mismatch {
    /// It belongs to another delivery: the link's deliveries are interleaved.
    DeliveryId,
    /// It names another tag.
    DeliveryTag,
    /// It names another format.
    MessageFormat,
}

impl Partial {
    pub(crate) fn new(
        id: u32,
        tag: DeliveryTag,
        message_format: u32,
        mode: ReceiverSettleMode,
        transfer: &mut Transfer,
        payload: &[u8],
    ) -> Self {
        Self {
            id,
            tag,
            message_format,
            settled_at_first: transfer.settled == Some(true),
            settled: transfer.settled == Some(true),
            resume: transfer.resume,
            mode,
            state: transfer.state.take(),
            payload: BytesMut::from(payload),
        }
    }

    /// Whether `transfer` may continue this delivery (transport 2.7.5).
    pub(crate) fn check(&self, transfer: &Transfer) -> Result<(), Mismatch> {
        if transfer.delivery_id.is_some_and(|id| id != self.id) {
            return Err(Mismatch::DeliveryId);
        }
        if transfer.delivery_tag.is_some_and(|tag| tag != self.tag) {
            return Err(Mismatch::DeliveryTag);
        }
        if transfer.message_format.is_some_and(|format| format != self.message_format) {
            return Err(Mismatch::MessageFormat);
        }
        Ok(())
    }

    /// Takes in what a further transfer brings.
    pub(crate) fn append(&mut self, transfer: &mut Transfer, payload: &[u8]) {
        // Settled once is settled for good, even when a later frame leaves the field out.
        self.settled |= transfer.settled == Some(true);
        self.resume |= transfer.resume;
        if let Some(state) = transfer.state.take() {
            self.state = Some(state);
        }
        self.payload.extend_from_slice(payload);
    }

    /// Bytes gathered so far.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// The whole delivery, which came on `link`.
    pub(crate) fn into_delivery(self, link: LinkKey) -> IncomingDelivery {
        IncomingDelivery {
            link,
            delivery_id: DeliveryId(self.id),
            tag: self.tag,
            message_format: self.message_format,
            settled: self.settled,
            state: self.state,
            resume: self.resume,
            rcv_settle_mode: self.mode,
            payload: self.payload.freeze(),
        }
    }
}
