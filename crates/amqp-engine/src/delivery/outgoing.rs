//! A delivery that was handed over and not yet sent whole.
//!
//! Invariant: the frames of a delivery carry the bytes of its two parts, each byte once and in
//! order.

use std::ops::Range;

use amqp_codec::performative::DeliveryState;
use amqp_codec::types::DeliveryTag;
use bytes::Bytes;

/// A message to be sent on a link.
#[derive(Clone, Debug)]
pub struct OutgoingDelivery {
    /// Its tag, unique among the unsettled deliveries of the link.
    pub tag: DeliveryTag,
    /// The message-format, 0 for a standard message.
    pub message_format: u32,
    /// Whether it is sent settled.
    pub settled: bool,
    /// Whether it is sent even when its credit is lowered before, as a settled one is: nobody else gets it, and whoever
    /// handed it over will not do so again.
    pub given: bool,
    /// A state to send with it: a transaction's, or what is known of a resumed delivery.
    pub state: Option<DeliveryState>,
    /// Whether it resumes an earlier delivery of the same tag.
    pub resume: bool,
    /// The sections written for this delivery: header, annotations. These and `bare` may be slices of something larger;
    /// see [`Connection::compact_queued`](crate::Connection::compact_queued).
    pub sections: Bytes,
    /// The rest of the message as it was stored.
    pub bare: Bytes,
}

impl OutgoingDelivery {
    /// A message of `sections` followed by `bare`, unsettled, with message-format 0.
    pub fn new(tag: DeliveryTag, sections: Bytes, bare: Bytes) -> Self {
        Self {
            tag,
            message_format: 0,
            settled: false,
            given: false,
            state: None,
            resume: false,
            sections,
            bare,
        }
    }

    /// Length of the encoded message, in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.sections.len() + self.bare.len()
    }

    /// Whether the message has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A delivery in the queue of its session.
#[derive(Debug)]
pub(crate) struct Queued {
    /// Our handle of its link.
    pub(crate) link: u32,
    /// The id the caller knows it by.
    pub(crate) id: u32,
    /// Number of its bytes that are sent; `None` before the first frame.
    pub(crate) sent: Option<usize>,
    pub(crate) delivery: OutgoingDelivery,
}

impl Queued {
    /// These bytes of the message, out of both parts.
    #[inline]
    pub(crate) fn payload(&self, bytes: Range<usize>) -> (&[u8], &[u8]) {
        let (sections, bare) = (&self.delivery.sections, &self.delivery.bare);
        let split = sections.len();
        let in_bare = bytes.start.saturating_sub(split)..bytes.end.saturating_sub(split);
        let in_sections = bytes.start.min(split)..bytes.end.min(split);
        (sections.get(in_sections).unwrap_or_default(), bare.get(in_bare).unwrap_or_default())
    }
}
