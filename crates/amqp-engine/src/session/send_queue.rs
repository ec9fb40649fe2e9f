//! Deliveries of a session that wait to be sent, and the ids of those that were sent.
//!
//! Invariant: deliveries go out one after the other in the order in which they were handed over, each whole and with the
//! next id of the wire, in frames that the peer's frame size allows.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
    ops::Range,
};

use amqp_codec::frame::{FrameKind, HEADER_LEN, write_frame, write_frame_front};
use amqp_codec::performative::Transfer;
use bytes::BytesMut;

use super::numbering::{Numbering, TooManyGaps};
use crate::delivery::{Compaction, OutgoingDelivery, Queued};
use crate::gather::GatherBuffer;
use crate::ids::{DeliveryId, serial_distance};

/// A transfer without a state is never longer than this, frame header included, in bytes.
const TRANSFER_OVERHEAD: usize = 96;

/// Room for this many waiting deliveries is kept.
const KEEP_QUEUE: usize = 256;
/// Most deliveries that room is made for before they come.
const QUEUE_AHEAD_MAX: usize = 1_024;

/// Deliveries in the order in which they go out.
#[derive(Debug)]
pub(crate) struct SendQueue {
    deliveries: VecDeque<Queued>,
    numbering: Numbering,
    /// Largest length since the buffer was last shrunk, as a capacity hint.
    most: usize,
    /// That length of the time before.
    most_before: usize,
    /// The last so many deliveries came since the last compaction.
    uncompacted: usize,
    compaction: Compaction,
}

impl SendQueue {
    /// An empty queue whose first delivery has this id.
    pub(super) fn new(first_id: u32) -> Self {
        Self {
            deliveries: VecDeque::new(),
            numbering: Numbering::new(first_id),
            most: 0,
            most_before: 0,
            uncompacted: 0,
            compaction: Compaction::default(),
        }
    }

    /// Adds a delivery for a link of ours. Gives its id, and whether it is the first since the last compaction.
    #[expect(clippy::inline_always, reason = "as for its caller: the delivery is made where it waits")]
    #[inline(always)]
    pub(super) fn push(&mut self, link: u32, delivery: OutgoingDelivery) -> (DeliveryId, bool) {
        self.uncompacted += 1;
        let id = self.numbering.hand_over();
        if self.deliveries.capacity() == 0 {
            self.deliveries.reserve(self.most_before);
        }
        // A delivery is large: `push_back` would make it on the stack and move it.
        self.deliveries.extend(iter::once_with(|| Queued { link, id, sent: None, delivery }));
        (DeliveryId(id), self.uncompacted == 1)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Number of deliveries that were handed over and are not sent whole.
    pub(crate) fn len(&self) -> usize {
        self.deliveries.len()
    }

    /// The first delivery that was handed over and is not sent to its end.
    pub(crate) fn oldest(&self) -> Option<DeliveryId> {
        self.deliveries.front().map(|queued| DeliveryId(queued.id))
    }

    /// The id that the next delivery will have.
    pub(crate) const fn next_id(&self) -> DeliveryId {
        DeliveryId(self.numbering.next_local())
    }

    /// Deliveries before `oldest` will not be settled any more, and nothing that the peer says of them matters.
    pub(crate) fn forget_before(&mut self, oldest: DeliveryId) {
        self.numbering.forget_before(oldest.0);
    }

    /// The ids of the wire for deliveries `first` to `last`, if both were sent.
    pub(super) fn wire_range(&self, first: DeliveryId, last: DeliveryId) -> Option<(u32, u32)> {
        if !self.numbering.is_sent(first.0) || !self.numbering.is_sent(last.0) {
            return None;
        }
        let ids = (self.numbering.wire_of(first.0), self.numbering.wire_of(last.0));
        (serial_distance(ids.0, ids.1) >= 0).then_some(ids)
    }

    /// The deliveries that were sent among those that the peer calls `first` to `last`, as a range.
    #[inline]
    pub(super) fn sent_part(&self, first: u32, last: u32) -> Option<(DeliveryId, DeliveryId)> {
        let (first, last) = self.numbering.sent_part(first, last)?;
        Some((DeliveryId(self.numbering.local_of(first)), DeliveryId(self.numbering.local_of(last))))
    }

    /// Notes the length before deliveries are taken out.
    #[inline]
    pub(super) fn note_length(&mut self) {
        self.most = self.most.max(self.deliveries.len());
    }

    /// Writes the next frame of the foremost delivery. Gives its link, and whether that frame was its last.
    #[inline]
    pub(super) fn write_frame(
        &mut self,
        channel: u16,
        max_frame: u32,
        out: &mut GatherBuffer,
    ) -> Option<(u32, bool)> {
        let front = self.deliveries.front_mut()?;
        let link = front.link;
        let id = self.numbering.wire_id_of_front(front.sent.is_some());
        let finished = write_frame_of(front, channel, id, max_frame, out);
        if finished {
            self.deliveries.pop_front();
        }
        Some((link, finished))
    }

    /// Gives back the room of a queue that was long and is empty.
    #[inline]
    pub(super) fn release_room(&mut self) {
        if self.deliveries.is_empty() && self.deliveries.capacity() > KEEP_QUEUE {
            self.deliveries = VecDeque::new();
            self.most_before = std::mem::take(&mut self.most).min(QUEUE_AHEAD_MAX);
        }
    }

    /// Gives back room that is not in use.
    pub(super) fn shrink(&mut self) {
        self.deliveries.shrink_to_fit();
    }

    /// Drops all that waits: the session has ended.
    pub(super) fn clear(&mut self) {
        self.deliveries = VecDeque::new();
    }

    /// Compacts the deliveries that came since the last call and have to wait: see [`Compaction`].
    pub(crate) fn compact(&mut self) {
        let uncompacted = std::mem::take(&mut self.uncompacted).min(self.deliveries.len());
        for queued in self.deliveries.iter_mut().rev().take(uncompacted).rev() {
            self.compaction.compact(queued);
        }
    }

    /// Takes back the deliveries of `link` that wait beyond the first `keep`. Unless the link goes, a delivery of which a
    /// frame is out stays, and so does one that goes out settled or is `given`: the layer above has given it away, and the
    /// peer takes what was on its way when it lowered its credit.
    pub(super) fn take_back(
        &mut self,
        link: u32,
        mut keep: u32,
        link_goes: bool,
    ) -> (Vec<DeliveryId>, Result<(), TooManyGaps>) {
        let mut taken = Vec::new();
        let mut gaps = Ok(());
        let numbering = &mut self.numbering;
        self.deliveries.retain(|queued| {
            let stays = !link_goes && queued.sent.is_some();
            if queued.link != link || stays {
                return true;
            }
            if keep > 0 {
                keep -= 1;
                return true;
            }
            if !link_goes && (queued.delivery.settled || queued.delivery.given) {
                return true;
            }
            if queued.sent.is_none() {
                gaps = gaps.and(numbering.drop_unsent(queued.id));
            }
            taken.push(DeliveryId(queued.id));
            false
        });
        (taken, gaps)
    }

    /// Takes back everything that waits, by link.
    pub(super) fn take_back_all(&mut self) -> BTreeMap<u32, Vec<DeliveryId>> {
        let mut by_link: BTreeMap<u32, Vec<DeliveryId>> = BTreeMap::new();
        for queued in std::mem::take(&mut self.deliveries) {
            by_link.entry(queued.link).or_default().push(DeliveryId(queued.id));
        }
        by_link
    }
}

/// Writes the next frame of a delivery; true when it was the last.
#[inline]
fn write_frame_of(
    queued: &mut Queued,
    channel: u16,
    id: u32,
    max_frame: u32,
    out: &mut GatherBuffer,
) -> bool {
    let offset = queued.sent.unwrap_or(0);
    let rest = queued.delivery.len() - offset;
    let mut transfer = transfer_of(queued, id);
    if rest + TRANSFER_OVERHEAD <= max_frame as usize && transfer.state.is_none() {
        write_transfer(queued, &transfer, channel, offset..offset + rest, out);
        return true;
    }
    let room = room_for_payload(&mut transfer, max_frame, out.encoded_mut());
    let count = rest.min(room);
    transfer.more = count < rest;
    write_transfer(queued, &transfer, channel, offset..offset + count, out);
    queued.sent = Some(offset + count);
    !transfer.more
}

/// Writes a transfer with these bytes of its delivery. A large part of the message as it was stored stays where it lies.
#[inline]
fn write_transfer(
    queued: &Queued,
    transfer: &Transfer,
    channel: u16,
    payload: Range<usize>,
    out: &mut GatherBuffer,
) {
    let (sections, bare) = queued.payload(payload);
    if out.gathers(bare.len()) {
        write_frame_front(out.encoded_mut(), FrameKind::Amqp, channel, bare.len(), |out| {
            transfer.encode(out);
            out.extend_from_slice(sections);
        });
        return out.place(queued.delivery.bare.slice_ref(bare));
    }
    write_frame(out.encoded_mut(), FrameKind::Amqp, channel, |out| {
        transfer.encode(out);
        out.extend_from_slice(sections);
        out.extend_from_slice(bare);
    });
}

/// Number of payload bytes that fit behind `transfer` in a frame of the peer's. A state that leaves
/// no room is left out: it is a hint, unlike the message.
#[cold]
fn room_for_payload(transfer: &mut Transfer, max_frame: u32, out: &mut BytesMut) -> usize {
    let start = out.len();
    transfer.encode(out);
    let len = out.len() - start + HEADER_LEN;
    out.truncate(start);
    match (max_frame as usize).checked_sub(len) {
        Some(room) if room > 0 => room,
        _ => {
            transfer.state = None;
            (max_frame as usize).saturating_sub(TRANSFER_OVERHEAD)
        }
    }
}

/// The transfer of a delivery. All its frames carry all its fields, as Proton writes them.
#[inline]
fn transfer_of(queued: &Queued, id: u32) -> Transfer {
    let delivery = &queued.delivery;
    Transfer {
        handle: queued.link,
        delivery_id: Some(id),
        delivery_tag: Some(delivery.tag),
        message_format: Some(delivery.message_format),
        settled: Some(delivery.settled),
        more: false,
        rcv_settle_mode: None,
        state: delivery.state.clone(),
        resume: delivery.resume,
        aborted: false,
        batchable: false,
    }
}
