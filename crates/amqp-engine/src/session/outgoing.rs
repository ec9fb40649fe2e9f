//! Outgoing deliveries of a session (transport 2.6.14, 2.7.5).
//!
//! Invariant: deliveries of one session go out one after the other, each whole, in frames that the
//! peer's frame size and window allow.

use std::{
    collections::{BTreeMap, VecDeque},
    iter,
    ops::Range,
};

use amqp_codec::frame::{FrameKind, HEADER_LEN, write_frame, write_frame_front};
use amqp_codec::performative::Transfer;
use bytes::BytesMut;

use super::Session;
use super::numbering::TooManyGaps;
use crate::config::Config;
use crate::delivery::{OutgoingDelivery, Queued};
use crate::event::Event;
use crate::gather::GatherBuffer;
use crate::ids::DeliveryId;
use crate::link::Link;

/// A transfer without a state is never longer than this, frame header included, in bytes.
const TRANSFER_OVERHEAD: usize = 96;

/// Room for this many waiting deliveries is kept.
const KEEP_QUEUE: usize = 256;
/// Most deliveries that room is made for before they come.
const QUEUE_AHEAD_MAX: usize = 1_024;

impl Session {
    /// Takes a delivery to be sent on a link of ours.
    #[expect(clippy::inline_always, reason = "as for its caller: the delivery is made where it waits")]
    #[inline(always)]
    pub(crate) fn enqueue(&mut self, link: u32, delivery: OutgoingDelivery) -> Option<DeliveryId> {
        let sender = self.links.get_mut(link)?.sender_mut()?;
        sender.credit.take();
        sender.queued += 1;
        self.uncompacted += 1;
        let id = self.numbering.hand_over();
        if self.queue.capacity() == 0 {
            self.queue.reserve(self.queue_before);
        }
        // It is made in its place.
        self.queue.extend(iter::once_with(|| Queued { link, id, sent: None, delivery }));
        Some(DeliveryId(id))
    }

    /// Writes transfers until the peer's window is full, `out` is longer than `soft_limit`, or
    /// nothing is left. Links whose drain can be answered now are added to `drained`.
    #[inline]
    pub(crate) fn write_transfers(
        &mut self,
        max_frame: u32,
        soft_limit: usize,
        out: &mut GatherBuffer,
        drained: &mut Vec<u32>,
    ) {
        self.queue_most = self.queue_most.max(self.queue.len());
        while out.len() < soft_limit && self.windows.outgoing_left() > 0 {
            let Some(front) = self.queue.front_mut() else { break };
            let link = front.link;
            let id = self.numbering.wire_id_of_front(front.sent.is_some());
            let finished = write_frame_of(front, self.id.channel, id, max_frame, out);
            self.windows.take_outgoing();
            if finished {
                self.queue.pop_front();
            }
            if let Some(sender) = self.links.get_mut(link).and_then(Link::sender_mut)
                && sender.frame_sent(finished)
            {
                drained.push(link);
            }
        }
        if self.queue.is_empty() && self.queue.capacity() > KEEP_QUEUE {
            self.queue = VecDeque::new();
            self.queue_before = std::mem::take(&mut self.queue_most).min(QUEUE_AHEAD_MAX);
        }
    }

    /// Compacts the deliveries that came since the last call and have to wait: see
    /// [`Compaction`](crate::delivery::Compaction).
    pub(crate) fn compact_queued(&mut self) {
        let uncompacted = std::mem::take(&mut self.uncompacted).min(self.queue.len());
        for queued in self.queue.iter_mut().rev().take(uncompacted).rev() {
            self.compaction.compact(queued);
        }
    }

    /// Takes back what `link` has waiting beyond the first `keep` deliveries. Gives their ids. Unless the
    /// link goes, a delivery of which a frame is out stays, and so does one that goes out settled or is `given`: whoever
    /// handed it over has given it away, and the peer takes what was on its way when it lowered its credit.
    pub(crate) fn take_back(
        &mut self,
        link: u32,
        mut keep: u32,
        link_goes: bool,
    ) -> Result<Vec<DeliveryId>, TooManyGaps> {
        let mut taken = Vec::new();
        let mut gaps = Ok(());
        let numbering = &mut self.numbering;
        self.queue.retain(|queued| {
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
        // With the half-sent one the link goes too, and its counts.
        if !link_goes && let Some(sender) = self.links.get_mut(link).and_then(Link::sender_mut) {
            sender.taken_back(u32::try_from(taken.len()).unwrap_or(u32::MAX));
        }
        gaps.map(|()| taken)
    }

    /// Takes back everything that waits, link by link.
    pub(crate) fn return_unsent(&mut self) -> Vec<Event> {
        let mut by_link: BTreeMap<u32, Vec<DeliveryId>> = BTreeMap::new();
        for queued in std::mem::take(&mut self.queue) {
            by_link.entry(queued.link).or_default().push(DeliveryId(queued.id));
        }
        let events = by_link.into_iter().filter_map(|(handle, deliveries)| {
            Some(Event::Unsent { link: self.links.get(handle)?.key, deliveries })
        });
        events.collect()
    }

    /// Whether more transfers may be asked for, after a settlement made room.
    pub(crate) fn window_waits(&self, config: &Config) -> bool {
        self.windows.incoming_is_low() && self.may_renew_window(config)
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
