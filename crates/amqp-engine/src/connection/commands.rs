//! Commands of the layer above for links and deliveries.
//!
//! Invariant: a command with the id of something that is gone does nothing.

use std::time::Instant;

use amqp_codec::performative::DeliveryState;
use amqp_codec::types::Role;

use super::Connection;
use crate::delivery::{DelayedOutcome, OutgoingDelivery};
use crate::ids::{DeliveryId, LinkKey, SessionId, serial_distance};
use crate::link::{LinkEnd, LinkState};

impl Connection {
    /// Lets the peer send `credit` deliveries from here on, on a link that we receive on.
    pub fn grant_credit(&mut self, link: LinkKey, credit: u32) {
        let Some(receiver) = self.sessions.link_mut(link).and_then(|found| found.receiver_mut()) else {
            return;
        };
        receiver.credit.grant(credit);
        self.link_flow_due(link);
    }

    /// The credit that is left to the peer on a link that we receive on.
    pub fn credit_left(&self, link: LinkKey) -> u32 {
        match self.sessions.link(link).map(|found| &found.end) {
            Some(LinkEnd::Receiver(receiver)) => receiver.credit.credit(),
            _ => 0,
        }
    }

    /// Number of deliveries handed over, or given up by a drain, on a link that we send on.
    #[inline]
    pub fn handed_over(&self, link: LinkKey) -> u64 {
        match self.sessions.link(link).map(|found| &found.end) {
            Some(LinkEnd::Sender(sender)) => sender.credit.handed(),
            _ => 0,
        }
    }

    /// Activity counters of a link: of one that we receive on the deliveries that have begun and the bytes of the
    /// unfinished one, of one that we send on the deliveries that were handed over and the peer's limit. Where both
    /// are what they were, no message has moved on it and no credit was given.
    pub fn counts(&self, link: LinkKey) -> (u64, u64) {
        match self.sessions.link(link).map(|found| &found.end) {
            Some(LinkEnd::Receiver(receiver)) => {
                (receiver.credit.count().into(), receiver.partial_len() as u64)
            }
            Some(LinkEnd::Sender(sender)) => (sender.credit.handed(), sender.credit.limit()),
            None => (0, 0),
        }
    }

    /// Settles a delivery that was received and tells the peer its state. Consecutive deliveries of
    /// equal state go out as one disposition.
    ///
    /// This is the whole settlement, whatever the link's rcv-settle-mode says: publishers of Azure
    /// Service Bus ask for mode second and wait for a settled answer. On a link that was accepted with
    /// [`settles_second`](crate::AttachReply::settles_second) a delivery in that mode is told its state as by
    /// [`propose_incoming`](Self::propose_incoming), and stays unsettled until its peer settles it.
    #[inline]
    pub fn settle_incoming(&mut self, session: SessionId, delivery: DeliveryId, state: DeliveryState) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        if found.unsettled.is_left_to_peer(delivery.0) {
            return self.propose_incoming(session, delivery, state);
        }
        let Some(wire) = found.settle_received(delivery.0) else { return };
        let ids = (wire, wire);
        if found.dispositions.push(Role::Receiver, ids, true, Some(state)) {
            self.output.disposing.push(session.channel);
        }
        if found.window_waits(&self.config) {
            self.session_flow_due(session.channel);
        }
    }

    /// The same, at `due`: until then the delivery is unsettled, and [`deadline`](Self::deadline) is no later. What is
    /// delayed goes out in the order of the calls; what is settled by [`settle_incoming`](Self::settle_incoming) does
    /// not wait for it.
    ///
    /// A peer that detaches the link, ends the session or closes the connection is told before it is answered. When we
    /// do so, it is not told: it learns of the end of the link that its delivery has no outcome.
    pub fn settle_incoming_at(
        &mut self,
        due: Instant,
        session: SessionId,
        delivery: DeliveryId,
        state: DeliveryState,
    ) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let outcome = DelayedOutcome { due, session, delivery, state };
        if let Some(oldest) = self.delayed.push(outcome) {
            self.settle_delayed(oldest);
        }
    }

    /// The time of a delayed outcome has come.
    pub(super) fn settle_delayed(&mut self, outcome: DelayedOutcome) {
        self.settle_incoming(outcome.session, outcome.delivery, outcome.state);
    }

    /// Tells the peer the state of a delivery that was received, without settling it: the first
    /// half of a settlement in rcv-settle-mode second. When the peer settles, there is an
    /// [`Event::SettledByPeer`](crate::Event::SettledByPeer).
    pub fn propose_incoming(&mut self, session: SessionId, delivery: DeliveryId, state: DeliveryState) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let Some(wire) = found.unsettled.wire_of(delivery.0) else { return };
        let ids = (wire, wire);
        if found.dispositions.push(Role::Receiver, ids, false, Some(state)) {
            self.output.disposing.push(session.channel);
        }
    }

    /// Hands over a delivery to be sent on a link of ours; it is sent as the session's window
    /// allows. Gives its id, or `None` when the link is gone or not attached: then it is not taken.
    ///
    /// The credit of the link is the caller's to respect, see
    /// [`Event::LinkFlow`](crate::Event::LinkFlow).
    #[expect(clippy::inline_always, reason = "measured: a delivery is large, and is made where it waits")]
    #[inline(always)]
    pub fn send(&mut self, link: LinkKey, delivery: OutgoingDelivery) -> Option<DeliveryId> {
        let session = self.sessions.get_mut(link.session)?;
        let found = session.links.get(link.handle)?;
        if found.key != link || !matches!(found.state, LinkState::Attached) {
            return None;
        }
        let id = session.enqueue(link.handle, delivery)?;
        if session.uncompacted == 1 {
            self.output.uncompacted.push(link.session.channel);
        }
        self.take_send_turn(link.session.channel);
        Some(id)
    }

    /// Settles a delivery that was sent, and tells the peer: the answer to a disposition that did
    /// not settle. A delivery that has not gone out is not told of.
    #[inline]
    pub fn settle_outgoing(
        &mut self,
        session: SessionId,
        delivery: DeliveryId,
        state: Option<DeliveryState>,
    ) {
        self.settle_outgoing_range(session, delivery, delivery, state);
    }

    /// The same for `first` to `last`, inclusive; all of them must have been sent.
    pub fn settle_outgoing_range(
        &mut self,
        session: SessionId,
        first: DeliveryId,
        last: DeliveryId,
        state: Option<DeliveryState>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let numbering = &found.numbering;
        if !numbering.is_sent(first.0) || !numbering.is_sent(last.0) {
            return;
        }
        let ids = (numbering.wire_of(first.0), numbering.wire_of(last.0));
        if serial_distance(ids.0, ids.1) >= 0 && found.dispositions.push(Role::Sender, ids, true, state) {
            self.output.disposing.push(session.channel);
        }
    }

    /// Tells the peer the state of a delivery that was sent, without settling it: the answer to a disposition that gives
    /// it an outcome for later, such as that of a transaction. A delivery that has not gone out is not told of.
    pub fn answer_outgoing(&mut self, session: SessionId, delivery: DeliveryId, state: DeliveryState) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        if !found.numbering.is_sent(delivery.0) {
            return;
        }
        let wire = found.numbering.wire_of(delivery.0);
        if found.dispositions.push(Role::Sender, (wire, wire), false, Some(state)) {
            self.output.disposing.push(session.channel);
        }
    }

    /// The id that the next delivery of the session will have; `None` when the session is gone.
    pub fn next_outgoing(&self, session: SessionId) -> Option<DeliveryId> {
        self.sessions.get(session).map(|found| DeliveryId(found.numbering.next_local()))
    }

    /// The first delivery of the session that was handed over and is not sent to its end; `None` when there is none.
    pub fn oldest_unsent(&self, session: SessionId) -> Option<DeliveryId> {
        let waiting = &self.sessions.get(session)?.queue;
        waiting.front().map(|queued| DeliveryId(queued.id))
    }

    /// Deliveries of the session that were handed over before `oldest` will not be settled any more,
    /// and what the peer says of them does not matter: they are settled, or their links are gone.
    ///
    /// Each run of deliveries that came back [`Unsent`](crate::Event::Unsent) costs the session a
    /// little until the deliveries before it are forgotten, and
    /// [`MAX_ID_GAPS`](crate::config::MAX_ID_GAPS) of them end it.
    pub fn forget_outgoing(&mut self, session: SessionId, oldest: DeliveryId) {
        if let Some(found) = self.sessions.get_mut(session) {
            found.numbering.forget_before(oldest.0);
        }
    }

    /// Answers a drain: nothing is left to send, and the credit up to `delivery_count` (the
    /// `limit` of [`Event::LinkFlow`](crate::Event::LinkFlow)) is given up. The answer goes out
    /// behind what was handed over before.
    pub fn drained(&mut self, link: LinkKey, delivery_count: u64) {
        let Some(sender) = self.sessions.link_mut(link).and_then(|found| found.sender_mut()) else {
            return;
        };
        sender.credit.drain_to(delivery_count);
        sender.drain_answer_due = sender.queued > 0;
        if !sender.drain_answer_due {
            self.link_flow_due(link);
        }
    }
}
