//! A message as the bytes of its frames, of which a few change from message to message.
//!
//! Invariant: the last bytes of a body are its stamp; all others are the filler.

use amqp_codec::frame::{FrameKind, write_frame};
use amqp_codec::message::MessageBuilder;
use amqp_codec::performative::Transfer;
use amqp_codec::sections::Header;
use amqp_codec::types::DeliveryTag;
use bytes::{BufMut as _, BytesMut};

use crate::Fallible;

/// Stamp and body that a receiver finds in a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stamp {
    pub(super) sender: u32,
    /// Counts from 0 for each sender.
    pub(super) number: u64,
    /// Nanoseconds since the epoch of the run.
    pub(super) due: u64,
}

/// Bytes of a stamp: the least that a body has.
pub(super) const STAMP_BYTES: usize = 20;
/// Every other byte of a body.
pub(super) const FILLER: u8 = 0x66;
/// Bytes of a frame that are no payload, at most.
const FRAME_OVERHEAD: usize = 64;
/// Stands for a delivery-id and a delivery-tag until one is written, and is found by its bytes.
const ID: u32 = 0x7fed_cba9;

impl Stamp {
    pub(super) fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        let parts = self.sender.to_be_bytes().into_iter().chain(self.number.to_be_bytes());
        for (place, byte) in bytes.iter_mut().zip(parts.chain(self.due.to_be_bytes())) {
            *place = byte;
        }
        bytes
    }

    pub(super) fn of(bytes: &[u8; STAMP_BYTES]) -> Self {
        let [a, b, c, d, rest @ ..] = *bytes;
        let (number, due) = rest.split_at(8);
        let wide = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        Self { sender: u32::from_be_bytes([a, b, c, d]), number: wide(number), due: wide(due) }
    }
}

/// The frames of one message.
#[derive(Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Transfer frames in it.
    pub(super) frames: u32,
    id_at: usize,
    tag_at: usize,
    stamp_at: usize,
}

impl Template {
    /// A message of `size` bytes in frames of at most `max_frame` bytes.
    pub(super) fn new(size: usize, durable: bool, max_frame: usize) -> Fallible<Self> {
        if size < STAMP_BYTES {
            return Err(format!("a body has at least {STAMP_BYTES} bytes").into());
        }
        let mut message = MessageBuilder::new();
        if durable {
            message = message.header(Header { durable: Some(durable), ..Header::default() });
        }
        let payload = message.data(&vec![FILLER; size]).build();
        let pieces = payload.chunks(max_frame.saturating_sub(FRAME_OVERHEAD).max(1));
        let (mut out, last) = (BytesMut::new(), pieces.len() - 1);
        for (index, piece) in pieces.enumerate() {
            let first = index == 0;
            let transfer = Transfer {
                delivery_id: first.then_some(ID),
                delivery_tag: if first { Some(DeliveryTag::try_from(&ID.to_be_bytes()[..])?) } else { None },
                message_format: first.then_some(0),
                settled: first.then_some(false),
                more: index < last,
                ..Transfer::default()
            };
            write_frame(&mut out, FrameKind::Amqp, 0, |out| {
                transfer.encode(out);
                out.put_slice(piece);
            });
        }
        let bytes = out.to_vec();
        let behind = |constructor: &[u8]| {
            let wanted = [constructor, &ID.to_be_bytes()].concat();
            let place = bytes.windows(wanted.len()).position(|window| window == wanted);
            place.map(|place| place + constructor.len()).ok_or("an encoded transfer has lost its delivery-id")
        };
        let (id_at, tag_at) = (behind(&[0x70])?, behind(&[0xa0, 4])?);
        Ok(Self {
            id_at,
            tag_at,
            stamp_at: bytes.len() - STAMP_BYTES,
            frames: u32::try_from(last + 1)?,
            bytes,
        })
    }

    /// Bytes of all frames.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the message with these parts.
    pub(super) fn append(&self, out: &mut Vec<u8>, id: u32, stamp: Stamp) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let id = id.to_be_bytes();
        let stamp = stamp.to_bytes();
        for (at, part) in [(self.id_at, &id[..]), (self.tag_at, &id[..]), (self.stamp_at, &stamp[..])] {
            if let Some(place) = out.get_mut(start + at..start + at + part.len()) {
                place.copy_from_slice(part);
            }
        }
    }
}

#[cfg(test)]
mod tests;
