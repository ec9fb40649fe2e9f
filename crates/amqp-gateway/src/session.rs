//! Sessions of a connection.
//!
//! Invariant: a session's number finds it, and nothing else, from its begin to its end.

use std::collections::VecDeque;

use amqp_codec::performative::DeliveryState;
use amqp_engine::{Connection, DeliveryId, SessionId};
use broker_core::Timestamp;
use tracing::Span;

use crate::{
    correlation::SessionNumber, cx::Cx, disposition::unsettled::UnsettledDeliveries,
    disposition::watermark::SettlementWatermark, key_index::Index, log_spans, slab::Slab,
    transaction::via_entity::ViaEntity, transfer::early_outcomes,
};

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The engine's name for it.
    pub(crate) id: SessionId,
    /// Deliveries that the peer has not settled.
    pub(crate) unsettled: UnsettledDeliveries,
    /// Sizes in bytes of deliveries given to the engine, of which the last ones are not sent.
    unsent: VecDeque<u32>,
    unsent_bytes: u64,
    /// Which deliveries the engine may forget.
    pub(crate) watermark: SettlementWatermark,
    /// The entity through which its transactions go.
    pub(crate) via_entity: ViaEntity,
    /// Span for log lines.
    span: Span,
}

impl Session {
    /// A session without links.
    fn new(id: SessionId) -> Self {
        Self {
            id,
            unsettled: UnsettledDeliveries::default(),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            watermark: SettlementWatermark::default(),
            via_entity: ViaEntity::default(),
            span: Span::none(),
        }
    }

    /// Notes a delivery that the engine was given.
    pub(crate) fn given(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unsent.push_back(bytes);
        self.unsent_bytes += u64::from(bytes);
    }

    /// Bytes of deliveries that the engine has been given and has not sent.
    pub(crate) fn unsent_bytes(&mut self, engine: &Connection) -> u64 {
        let deliveries = engine.session(self.id).unsent_deliveries();
        while self.unsent.len() > deliveries
            && let Some(bytes) = self.unsent.pop_front()
        {
            self.unsent_bytes -= u64::from(bytes);
        }
        self.unsent_bytes
    }

    /// Span for log lines.
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }
}

/// The sessions of one connection, by [`SessionNumber`].
#[derive(Debug)]
pub(crate) struct SessionTable {
    slots: Slab<Session, 11, 12>,
    /// From the engine's names to ours.
    by_id: Index<SessionId>,
}

impl SessionTable {
    /// Without sessions.
    pub(crate) const fn new() -> Self {
        Self { slots: Slab::new(), by_id: Index::new() }
    }

    /// The peer has begun a session.
    pub(crate) fn on_begun(&mut self, id: SessionId, engine: &mut Connection) {
        match self.slots.insert(Session::new(id)) {
            Some(number) => {
                self.by_id.insert(id, number);
                if let Some(session) = self.slots.get_mut(number) {
                    session.span = log_spans::session(number);
                }
            }
            // The engine's own limit is lower, so this is not reached.
            None => engine.end_session(id, None),
        }
    }

    /// Forgets a session.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<SessionNumber> {
        let number = self.by_id.find(id)?;
        self.slots.remove(number);
        self.by_id.remove(id);
        Some(SessionNumber(number))
    }

    /// The number of a session.
    pub(crate) fn find(&mut self, id: SessionId) -> Option<SessionNumber> {
        self.by_id.find(id).map(SessionNumber)
    }

    /// The session with this number.
    #[inline]
    pub(crate) fn get(&self, number: SessionNumber) -> Option<&Session> {
        self.slots.get(number.0)
    }

    /// The session with this number, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: SessionNumber) -> Option<&mut Session> {
        self.slots.get_mut(number.0)
    }

    /// Number of sessions.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of deliveries that the peer has not settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.slots.iter().map(|(_, session)| session.unsettled.len()).sum()
    }

    /// When the oldest of them went out, to the second.
    pub(crate) fn oldest_unsettled(&self) -> Option<Timestamp> {
        let since = self.slots.iter().filter_map(|(_, session)| session.unsettled.oldest_since());
        Some(Timestamp::from_millis(u64::from(since.min()?) * 1_000))
    }

    /// Bytes of deliveries that the engine has been given and has not sent.
    pub(crate) fn unsent_bytes(&mut self, engine: &Connection) -> u64 {
        self.slots.iter_mut().map(|session| session.unsent_bytes(engine)).sum()
    }

    /// Settles a delivery of the broker towards the peer.
    pub(crate) fn settle_sent(&self, cx: &mut Cx, session: SessionNumber, id: u32, state: DeliveryState) {
        let Some(session) = self.get(session) else { return };
        cx.engine.settle_outgoing(session.id, DeliveryId(id), Some(state));
    }

    /// Settles a delivery of the peer.
    pub(crate) fn settle_received(
        &self,
        cx: &mut Cx,
        session: SessionNumber,
        delivery: u32,
        state: DeliveryState,
    ) {
        let failed = matches!(state, DeliveryState::Rejected(_));
        cx.spans.answered(session, (delivery, delivery), failed, cx.now);
        let Some(session) = self.get(session) else { return };
        let (session, delivery) = (session.id, DeliveryId(delivery));
        if cx.client.delays_outcomes() && early_outcomes::differs_from_accepted(&state) {
            let due = cx.now.instant + early_outcomes::DELAY;
            return cx.engine.settle_incoming_at(due, session, delivery, state);
        }
        cx.engine.settle_incoming(session, delivery, state);
    }

    /// Accepts a run of deliveries of the peer.
    pub(crate) fn accept_received(&self, cx: &mut Cx, session: SessionNumber, (first, last): (u32, u32)) {
        cx.spans.answered(session, (first, last), false, cx.now);
        let Some(session) = self.get(session) else { return };
        for id in first..=last {
            cx.engine.settle_incoming(session.id, DeliveryId(id), DeliveryState::Accepted);
        }
    }
}
