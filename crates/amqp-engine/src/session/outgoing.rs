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
use amqp_codec::performative::{DeliveryState, Error, Transfer};
use amqp_codec::types::Role;
use bytes::BytesMut;

use super::Session;
use super::numbering::TooManyGaps;
use crate::condition::{self, error};
use crate::delivery::{OutgoingDelivery, Queued};
use crate::event::Event;
use crate::gather::GatherBuffer;
use crate::ids::{DeliveryId, LinkKey, serial_distance};
use crate::link::{Link, LinkState};
use crate::output::Output;

/// A transfer without a state is never longer than this, frame header included, in bytes.
const TRANSFER_OVERHEAD: usize = 96;

/// Room for this many waiting deliveries is kept.
const KEEP_QUEUE: usize = 256;
/// Most deliveries that room is made for before they come.
const QUEUE_AHEAD_MAX: usize = 1_024;

impl Session {
    /// Takes a delivery to be sent on a link of ours; gives its id, or nothing when the link is not attached.
    #[expect(clippy::inline_always, reason = "as for its caller: the delivery is made where it waits")]
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        output: &mut Output,
        key: LinkKey,
        delivery: OutgoingDelivery,
    ) -> Option<DeliveryId> {
        let link = self.links.get_mut(key.handle)?;
        if link.key != key || !matches!(link.state, LinkState::Attached) {
            return None;
        }
        let sender = link.sender_mut()?;
        sender.credit.take();
        sender.queued += 1;
        self.uncompacted += 1;
        let id = self.numbering.hand_over();
        if self.queue.capacity() == 0 {
            self.queue.reserve(self.queue_before);
        }
        // A delivery is large: `push_back` would make it on the stack and move it.
        self.queue.extend(iter::once_with(|| Queued { link: key.handle, id, sent: None, delivery }));
        if self.uncompacted == 1 {
            output.push_uncompacted(self.id.channel);
        }
        self.take_send_turn(output);
        Some(DeliveryId(id))
    }

    /// Whether a transfer can go out now.
    #[inline]
    fn can_send(&self) -> bool {
        !self.queue.is_empty() && self.windows.outgoing_left() > 0
    }

    /// Queues the session for its turn to send, when it can send and does not wait for it already.
    #[inline]
    pub(super) fn take_send_turn(&mut self, output: &mut Output) {
        if !self.in_send_turn && self.can_send() {
            self.in_send_turn = true;
            output.push_sending(self.id.channel);
        }
    }

    /// Settles deliveries `first` to `last` that were sent, and tells the peer. Those that have not gone out are not
    /// told of.
    pub(crate) fn settle_outgoing(
        &mut self,
        output: &mut Output,
        (first, last): (DeliveryId, DeliveryId),
        state: Option<DeliveryState>,
    ) {
        if !self.numbering.is_sent(first.0) || !self.numbering.is_sent(last.0) {
            return;
        }
        let ids = (self.numbering.wire_of(first.0), self.numbering.wire_of(last.0));
        if serial_distance(ids.0, ids.1) >= 0 {
            self.push_disposition(output, Role::Sender, ids, true, state);
        }
    }

    /// Tells the peer the state of a delivery that was sent, without settling it.
    pub(crate) fn answer_outgoing(
        &mut self,
        output: &mut Output,
        delivery: DeliveryId,
        state: DeliveryState,
    ) {
        if self.numbering.is_sent(delivery.0) {
            let wire = self.numbering.wire_of(delivery.0);
            self.push_disposition(output, Role::Sender, (wire, wire), false, Some(state));
        }
    }

    /// Queues a disposition for deliveries of these ids of the wire.
    #[inline]
    pub(super) fn push_disposition(
        &mut self,
        output: &mut Output,
        role: Role,
        ids: (u32, u32),
        settled: bool,
        state: Option<DeliveryState>,
    ) {
        if self.dispositions.push(role, ids, settled, state) {
            output.push_disposing(self.id.channel);
        }
    }

    /// The id that the next delivery will have.
    pub(crate) const fn next_outgoing(&self) -> DeliveryId {
        DeliveryId(self.numbering.next_local())
    }

    /// The first delivery that was handed over and is not sent to its end.
    pub(crate) fn oldest_unsent(&self) -> Option<DeliveryId> {
        self.queue.front().map(|queued| DeliveryId(queued.id))
    }

    /// Number of deliveries that were handed over and are not sent whole.
    pub(crate) fn unsent_count(&self) -> usize {
        self.queue.len()
    }

    /// Deliveries before `oldest` will not be settled any more, and nothing that the peer says of them matters.
    pub(crate) fn forget_outgoing(&mut self, oldest: DeliveryId) {
        self.numbering.forget_before(oldest.0);
    }

    /// Answers a drain, behind the deliveries that wait.
    pub(crate) fn drained(&mut self, output: &mut Output, link: LinkKey, delivery_count: u64) {
        let Some(sender) = self.link_mut(link).and_then(Link::sender_mut) else { return };
        sender.credit.drain_to(delivery_count);
        sender.drain_answer_due = sender.queued > 0;
        if !sender.drain_answer_due {
            self.request_link_flow(output, link.handle);
        }
    }

    /// The last delivery before the answer to a drain is out; true when the answer is due.
    pub(crate) fn end_drain(&mut self, handle: u32) -> bool {
        let sender = self.links.get_mut(handle).and_then(Link::sender_mut);
        sender.map(|sender| sender.drain_answer_due = false).is_some()
    }

    /// Writes transfers until the peer's window is full, `out` is longer than `soft_limit`, or
    /// nothing is left. Links whose drain can be answered now are added to `drained`.
    #[inline]
    pub(crate) fn write_transfers(
        &mut self,
        output: &mut Output,
        soft_limit: usize,
        out: &mut GatherBuffer,
        drained: &mut Vec<u32>,
    ) {
        self.in_send_turn = false;
        let max_frame = output.max_frame();
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
        self.take_send_turn(output);
    }

    /// Compacts the deliveries that came since the last call and have to wait: see
    /// [`Compaction`](crate::delivery::Compaction).
    pub(crate) fn compact_queued(&mut self) {
        let uncompacted = std::mem::take(&mut self.uncompacted).min(self.queue.len());
        for queued in self.queue.iter_mut().rev().take(uncompacted).rev() {
            self.compaction.compact(queued);
        }
    }

    /// Takes back the deliveries of `link` that wait beyond the first `keep`, and tells of them. Unless the link goes, a
    /// delivery of which a frame is out stays, and so does one that goes out settled or is `given`: the layer above has
    /// given it away, and the peer takes what was on its way when it lowered its credit.
    pub(crate) fn take_back(
        &mut self,
        events: &mut VecDeque<Event>,
        link: LinkKey,
        mut keep: u32,
        link_goes: bool,
    ) -> Result<(), Box<Error>> {
        let mut taken = Vec::new();
        let mut gaps = Ok(());
        let numbering = &mut self.numbering;
        self.queue.retain(|queued| {
            let stays = !link_goes && queued.sent.is_some();
            if queued.link != link.handle || stays {
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
        if !link_goes && let Some(sender) = self.links.get_mut(link.handle).and_then(Link::sender_mut) {
            sender.taken_back(u32::try_from(taken.len()).unwrap_or(u32::MAX));
        }
        if let Err(TooManyGaps) = gaps {
            let text = "too many deliveries were taken back before they were sent";
            return Err(Box::new(error(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        if !taken.is_empty() {
            events.push_back(Event::Unsent { link, deliveries: taken });
        }
        Ok(())
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
