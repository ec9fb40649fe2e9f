//! Outgoing deliveries of a session and their settlement (transport 2.6.14, 2.7.5).
//!
//! Invariant: a transfer goes out only while the peer's window has room for it.

use std::collections::VecDeque;

use amqp_codec::performative::{DeliveryState, Error};
use amqp_codec::types::Role;

use super::Session;
use super::numbering::TooManyGaps;
use super::send_queue::SendQueue;
use crate::condition::{self, error};
use crate::delivery::OutgoingDelivery;
use crate::event::Event;
use crate::gather::GatherBuffer;
use crate::ids::{DeliveryId, LinkKey};
use crate::link::{Link, LinkState};
use crate::output::Output;

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
        let (id, is_first) = self.send_queue.push(key.handle, delivery);
        if is_first {
            output.push_uncompacted(self.id.channel);
        }
        self.take_send_turn(output);
        Some(id)
    }

    pub(crate) const fn send_queue(&self) -> &SendQueue {
        &self.send_queue
    }

    pub(crate) const fn send_queue_mut(&mut self) -> &mut SendQueue {
        &mut self.send_queue
    }

    /// Queues the session for its turn to send, when it can send and does not wait for it already.
    #[inline]
    pub(super) fn take_send_turn(&mut self, output: &mut Output) {
        if !self.in_send_turn && !self.send_queue.is_empty() && self.windows.outgoing_left() > 0 {
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
        if let Some(ids) = self.send_queue.wire_range(first, last) {
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
        if let Some(ids) = self.send_queue.wire_range(delivery, delivery) {
            self.push_disposition(output, Role::Sender, ids, false, Some(state));
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
        self.send_queue.note_length();
        while out.len() < soft_limit && self.windows.outgoing_left() > 0 {
            let Some((link, finished)) = self.send_queue.write_frame(self.id.channel, max_frame, out) else {
                break;
            };
            self.windows.take_outgoing();
            if let Some(sender) = self.links.get_mut(link).and_then(Link::sender_mut)
                && sender.frame_sent(finished)
            {
                drained.push(link);
            }
        }
        self.send_queue.release_room();
        self.take_send_turn(output);
    }

    /// Takes back the deliveries of `link` that wait beyond the first `keep`, and tells of them: see
    /// [`SendQueue::take_back`].
    pub(crate) fn take_back(
        &mut self,
        events: &mut VecDeque<Event>,
        link: LinkKey,
        keep: u32,
        link_goes: bool,
    ) -> Result<(), Box<Error>> {
        let (deliveries, gaps) = self.send_queue.take_back(link.handle, keep, link_goes);
        // With the half-sent one the link goes too, and its counts.
        if !link_goes && let Some(sender) = self.links.get_mut(link.handle).and_then(Link::sender_mut) {
            sender.taken_back(u32::try_from(deliveries.len()).unwrap_or(u32::MAX));
        }
        if let Err(TooManyGaps) = gaps {
            let text = "too many deliveries were taken back before they were sent";
            return Err(Box::new(error(condition::RESOURCE_LIMIT_EXCEEDED, text)));
        }
        if !deliveries.is_empty() {
            events.push_back(Event::Unsent { link, deliveries });
        }
        Ok(())
    }

    /// Takes back everything that waits, link by link.
    pub(crate) fn return_unsent(&mut self) -> Vec<Event> {
        let by_link = self.send_queue.take_back_all().into_iter();
        let events = by_link.filter_map(|(handle, deliveries)| {
            Some(Event::Unsent { link: self.links.get(handle)?.key, deliveries })
        });
        events.collect()
    }
}
