//! Commands of the layer above: answers, deliveries, settlements.
//!
//! Invariant: a command with the id of something that is gone does nothing.

use std::sync::Arc;
use std::time::Instant;

use amqp_codec::performative::{DeliveryState, Error, SaslCode};
use bytes::Bytes;

use super::Connection;
use super::handshake::Phase;
use crate::command::{AttachReply, OpenReply};
use crate::config::Config;
use crate::delivery::{DelayedOutcome, OutgoingDelivery};
use crate::ids::{DeliveryId, LinkKey, SessionId};

impl Connection {
    /// Ends the SASL exchange that [`SaslInit`](crate::Event::SaslInit) or
    /// [`SaslResponse`](crate::Event::SaslResponse) asked about. Anything but [`SaslCode::Ok`] ends the connection too.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        let result = self.handshake.sasl_outcome(&mut self.output, code);
        self.fail_on_error(result);
    }

    /// Answers [`SaslInit`](crate::Event::SaslInit) or [`SaslResponse`](crate::Event::SaslResponse) with a challenge.
    pub fn sasl_challenge(&mut self, challenge: Bytes) {
        let result = self.handshake.sasl_challenge(&mut self.output, challenge);
        self.fail_on_error(result);
    }

    /// Replaces the configuration between [`Event::Opened`](crate::Event::Opened) and its answer, and does nothing at
    /// another time: the host that the peer's open names may decide which limits our open states and the connection
    /// keeps. Mechanisms, the time-out of the open and our longest silence have had their effect by then.
    pub fn set_config(&mut self, config: impl Into<Arc<Config>>) {
        if matches!(self.handshake.phase(), Phase::Opening) {
            self.config = config.into();
        }
    }

    /// Bytes of unfinished deliveries: transfers with more to come.
    pub const fn partial_bytes(&self) -> usize {
        self.endpoints.partial_bytes()
    }

    /// Unfinished deliveries may have so many bytes at most, until the next call, and never more than
    /// [`Config::max_partial_bytes`]. A transfer beyond it detaches its link with `amqp:resource-limit-exceeded`.
    pub fn limit_partial_bytes(&mut self, limit: usize) {
        self.endpoints.limit_partial_bytes(limit);
    }

    /// Answers [`Event::Opened`](crate::Event::Opened) with our own open.
    pub fn accept_open(&mut self, reply: OpenReply) {
        let result = self.handshake.accept_open(&self.config, &mut self.output, reply);
        self.fail_on_error(result);
    }

    /// Answers [`Event::Opened`](crate::Event::Opened) with our own open and a close with `error`.
    pub fn refuse_open(&mut self, error: Error) {
        if matches!(self.handshake.phase(), Phase::Opening) {
            self.open_and_close(error);
        }
    }

    /// Ends a session. Its links go with it; waiting deliveries are dropped, with an
    /// [`Event::Unsent`](crate::Event::Unsent) for each link.
    pub fn end_session(&mut self, session: SessionId, error: Option<Error>) {
        let (endpoints, mut context) = self.parts();
        endpoints.end_session(&mut context, session, error);
    }

    /// Answers [`Event::LinkAttached`](crate::Event::LinkAttached): the link is attached on our side too.
    pub fn accept_link(&mut self, link: LinkKey, reply: AttachReply) {
        let (endpoints, mut context) = self.parts();
        let result = endpoints.accept_link(&mut context, link, reply);
        self.fail_on_error(result);
    }

    /// Answers [`Event::LinkAttached`](crate::Event::LinkAttached): the link is refused, by an attach
    /// without termini and a detach with `error`.
    pub fn refuse_link(&mut self, link: LinkKey, error: Error) {
        self.detach(link, Some(error));
    }

    /// Detaches a link for good. Its waiting deliveries are dropped, with an [`Event::Unsent`](crate::Event::Unsent).
    pub fn detach(&mut self, link: LinkKey, error: Option<Error>) {
        let (endpoints, mut context) = self.parts();
        let result = endpoints.detach(&mut context, link, error).map(|_| ());
        self.fail_on_error(result);
    }

    /// Puts the detaches that wait to be written in front of the dispositions that are pushed from here on. Otherwise all
    /// dispositions go first.
    pub fn flush_detaches(&mut self) {
        if self.output.has_teardown() {
            let (endpoints, mut context) = self.parts();
            endpoints.flush(&mut context);
        }
    }

    /// Lets the peer send `credit` deliveries from here on, on a link that we receive on.
    pub fn grant_credit(&mut self, link: LinkKey, credit: u32) {
        if let Some(session) = self.endpoints.session_mut(link.session) {
            session.grant_credit(&mut self.output, link, credit);
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
        if let Some(session) = self.endpoints.session_mut(session) {
            session.settle_incoming(&self.config, &mut self.output, delivery, state);
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
        let (endpoints, mut context) = self.parts();
        endpoints.delay(&mut context, DelayedOutcome { due, session, delivery, state });
    }

    /// Tells the peer the state of a delivery that was received, without settling it: the first
    /// half of a settlement in rcv-settle-mode second. When the peer settles, there is an
    /// [`Event::SettledByPeer`](crate::Event::SettledByPeer).
    pub fn propose_incoming(&mut self, session: SessionId, delivery: DeliveryId, state: DeliveryState) {
        if let Some(session) = self.endpoints.session_mut(session) {
            session.propose_incoming(&mut self.output, delivery, state);
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
        self.endpoints.session_mut(link.session)?.send(&mut self.output, link, delivery)
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
        if let Some(session) = self.endpoints.session_mut(session) {
            session.settle_outgoing(&mut self.output, (first, last), state);
        }
    }

    /// Tells the peer the state of a delivery that was sent, without settling it: the answer to a disposition that gives
    /// it an outcome for later, such as that of a transaction. A delivery that has not gone out is not told of.
    pub fn answer_outgoing(&mut self, session: SessionId, delivery: DeliveryId, state: DeliveryState) {
        if let Some(session) = self.endpoints.session_mut(session) {
            session.answer_outgoing(&mut self.output, delivery, state);
        }
    }

    /// Deliveries of the session that were handed over before `oldest` will not be settled any more,
    /// and what the peer says of them does not matter: they are settled, or their links are gone.
    ///
    /// Each run of deliveries that came back [`Unsent`](crate::Event::Unsent) costs the session a
    /// little until the deliveries before it are forgotten, and
    /// [`MAX_ID_GAPS`](crate::config::MAX_ID_GAPS) of them end it.
    pub fn forget_outgoing(&mut self, session: SessionId, oldest: DeliveryId) {
        if let Some(session) = self.endpoints.session_mut(session) {
            session.send_queue_mut().forget_before(oldest);
        }
    }

    /// Answers a drain: nothing is left to send, and the credit up to `delivery_count` (the
    /// `limit` of [`Event::LinkFlow`](crate::Event::LinkFlow)) is given up. The answer goes out
    /// behind what was handed over before.
    pub fn drained(&mut self, link: LinkKey, delivery_count: u64) {
        if let Some(session) = self.endpoints.session_mut(link.session) {
            session.drained(&mut self.output, link, delivery_count);
        }
    }
}
