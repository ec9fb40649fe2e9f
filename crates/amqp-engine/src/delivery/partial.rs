//! A delivery of which more transfers are to come.
//!
//! Invariant: the gathered payload is the payloads of the transfers, in order, or nothing once they are
//! too large.

use amqp_codec::performative::{DeliveryState, Transfer};
use amqp_codec::types::{DeliveryTag, ReceiverSettleMode};
use bytes::{Buf as _, BytesMut};

use super::Payload;
use crate::event::{Event, IncomingDelivery};
use crate::framing::STAYS_FROM;
use crate::ids::{DeliveryId, LinkKey};

/// The front of a delivery.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) id: u32,
    /// Its id for the peer.
    wire: u32,
    pub(crate) tag: DeliveryTag,
    pub(crate) message_format: u32,
    /// Whether its first transfer said settled.
    pub(crate) settled_at_first: bool,
    /// Whether any transfer so far said settled.
    pub(crate) settled: bool,
    pub(crate) resume: bool,
    pub(crate) mode: ReceiverSettleMode,
    pub(crate) state: Option<DeliveryState>,
    /// The payload, and perhaps bytes of frames behind it: see [`Partial::append`].
    payload: BytesMut,
    /// Length of the payload so far, in bytes.
    length: usize,
    /// Bytes of all transfers so far, kept or not.
    bytes: u64,
    /// The limit it has exceeded: its payload is dropped.
    exceeds: Option<u64>,
}

/// Contradiction between a continuing transfer and the first one of its delivery.
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
    /// The front of a delivery. A large one `stays` where it was read, which keeps that memory.
    pub(crate) fn new(
        (id, wire): (u32, u32),
        tag: DeliveryTag,
        message_format: u32,
        mode: ReceiverSettleMode,
        transfer: &mut Transfer,
        payload: Payload,
        stays: bool,
    ) -> Self {
        let length = payload.len();
        Self {
            id,
            wire,
            tag,
            message_format,
            settled_at_first: transfer.settled == Some(true),
            settled: transfer.settled == Some(true),
            resume: transfer.resume,
            mode,
            state: transfer.state.take(),
            payload: begun(payload, stays),
            length,
            bytes: length as u64,
            exceeds: None,
        }
    }

    /// Whether `transfer` may continue this delivery (transport 2.7.5).
    pub(crate) fn check(&self, transfer: &Transfer) -> Result<(), Mismatch> {
        if transfer.delivery_id.is_some_and(|id| id != self.wire) {
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

    /// Takes in what a further transfer brings. Where its frame lies behind what is here, in the same memory, its payload
    /// only moves to where its header was: of a body that just fills a frame, and the few bytes for which its sections
    /// left no room, only these are copied.
    pub(crate) fn append(&mut self, transfer: &mut Transfer, payload: Payload) {
        // Settled once is settled for good, even when a later frame leaves the field out.
        self.settled |= transfer.settled == Some(true);
        self.resume |= transfer.resume;
        if let Some(state) = transfer.state.take() {
            self.state = Some(state);
        }
        self.bytes += payload.len() as u64;
        if self.exceeds.is_some() {
            return;
        }
        let count = payload.len();
        let (frame, start) = payload.into_parts();
        let begin = self.payload.len() + start;
        match self.payload.try_unsplit(frame) {
            Ok(()) => self.payload.copy_within(begin.., self.length),
            Err(frame) => {
                self.payload.truncate(self.length);
                self.payload.extend_from_slice(frame.get(start..).unwrap_or_default());
            }
        }
        self.length += count;
    }

    /// Drops the payload, that so far and that to come: it exceeds `limit` bytes.
    pub(crate) fn drop_payload(&mut self, limit: u64) {
        (self.payload, self.length) = (BytesMut::new(), 0);
        self.exceeds = Some(limit);
    }

    /// The limit for which the payload was dropped.
    pub(crate) const fn exceeds(&self) -> Option<u64> {
        self.exceeds
    }

    /// Bytes of all transfers so far, kept or not.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes kept so far, with those of headers that lie behind them.
    pub(crate) fn len(&self) -> usize {
        self.payload.len()
    }

    /// Event for the whole delivery, which came on `link`.
    pub(crate) fn into_event(mut self, link: LinkKey) -> Event {
        let (delivery_id, tag) = (DeliveryId(self.id), self.tag);
        if let Some(limit) = self.exceeds {
            let (state, bytes) = (self.state, self.bytes);
            return Event::TooLarge { link, delivery_id, tag, state, bytes, limit };
        }
        self.payload.truncate(self.length);
        Event::Transfer(IncomingDelivery {
            link,
            delivery_id,
            tag,
            message_format: self.message_format,
            settled: self.settled,
            state: self.state,
            resume: self.resume,
            rcv_settle_mode: self.mode,
            payload: self.payload.freeze(),
        })
    }
}

/// The front of a payload, with a little room: a body that just fills a frame needs no more for what its sections took
/// of it, and is not moved again.
fn begun(payload: Payload, stays: bool) -> BytesMut {
    let length = payload.len();
    if stays && length >= STAYS_FROM {
        let (mut frame, start) = payload.into_parts();
        frame.advance(start);
        return frame;
    }
    let mut begun = BytesMut::with_capacity(length + length / ROOM_SHARE);
    begun.extend_from_slice(payload.bytes());
    begun
}

/// Room for an eighth more than the first transfer brought.
const ROOM_SHARE: usize = 8;
