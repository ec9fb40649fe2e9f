//! Link on which the peer receives messages: its credit, and the count of what it has not settled.
//!
//! Invariant: the core is asked for no more deliveries than the peer's credit and the limit of unsettled ones allow.

use std::{collections::VecDeque, mem};

use amqp_codec::{performative::Attach, raw::RawMap, types::SenderSettleMode};
use amqp_engine::LinkKey;
use broker_core::{Command, EntityPath, LinkId, QueueInfo, SubQueue};

use super::{plain_subscription::PlainSubscription, session_filter};
use crate::{
    cx::Cx,
    dialect::Dialect,
    disposition::rules::{self, PeerState, SettlementRule, WireOutcome},
    tracking,
};

/// Drains of one link that are answered one by one.
const DRAINS_MAX: usize = 64;

/// A link on which the peer receives messages.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Source entity.
    path: EntityPath,
    /// The attach that waits for the core's answer.
    attach: Option<Box<Attach>>,
    /// The link's sender settle mode.
    mode: SenderSettleMode,
    /// Outcome of a delivery that the peer settles without a state.
    default_outcome: Option<WireOutcome>,
    /// First half of the message-ids made for messages without one.
    id_base: u64,
    /// Largest message the peer takes, in bytes; `None`: any.
    max_message_bytes: Option<u64>,
    /// Deliveries, as the core counts them.
    delivered: u64,
    /// Difference between the core's delivery count and the peer's.
    offset: i64,
    /// The peer's limit, as the peer counts.
    limit: u64,
    /// The limit the core was told.
    announced: u64,
    /// Deliveries the peer has not settled.
    unsettled: u32,
    /// The session that it was given.
    held_session: Option<Box<str>>,
    /// It only looks on, and gets no messages.
    looks_on: bool,
    /// The peer's last word on credit was a drain, and it is not answered.
    draining: bool,
    /// Limits to which a drain was asked and not answered, oldest first: the peer's and the core's.
    drains: VecDeque<(u64, u64)>,
    /// Subscription that a plain receiver of a topic owns, if it may have one.
    plain_subscription: Option<Box<PlainSubscription>>,
}

impl Receiver {
    /// A link that the peer asks for.
    pub(super) fn new(
        attach: Box<Attach>,
        path: EntityPath,
        dialect: Dialect,
        default_outcome: Option<WireOutcome>,
        plain_subscription: Option<PlainSubscription>,
    ) -> Self {
        Self {
            mode: attach.snd_settle_mode.unwrap_or_default(),
            default_outcome,
            id_base: tracking::message_id_base(&path.entity),
            max_message_bytes: attach
                .max_message_size
                .filter(|limit| *limit > 0 && dialect == Dialect::Plain),
            path,
            delivered: 0,
            offset: 0,
            limit: 0,
            announced: 0,
            unsettled: 0,
            held_session: None,
            looks_on: session_filter::only_looks_on(&attach),
            draining: false,
            drains: VecDeque::new(),
            plain_subscription: plain_subscription.map(Box::new),
            attach: Some(attach),
        }
    }

    /// The core has opened the link, and locked a session for it or not: gives the attach that is to be answered, and the
    /// filter that is in force.
    pub(super) fn on_opened(
        &mut self,
        queue: &QueueInfo,
        held_session: Option<Box<str>>,
    ) -> Option<(Box<Attach>, Option<RawMap>)> {
        let attach = self.attach.take()?;
        self.held_session = held_session;
        let in_force = self.plain_subscription.as_mut().and_then(|own| own.take_filter());
        let is_topic =
            self.path.sub_queue == SubQueue::Main && !self.path.entity.eq_ignore_ascii_case(&queue.name);
        // Only a subscription is given up with its link.
        self.plain_subscription = self.plain_subscription.take().filter(|_| is_topic);
        if let Some(own) = &mut self.plain_subscription {
            own.set_name(&queue.name);
        }
        Some((attach, in_force))
    }

    /// The entity that it receives from.
    pub(super) const fn path(&self) -> &EntityPath {
        &self.path
    }

    /// Source entity, as error texts name it.
    pub(super) fn entity_name(&self) -> &str {
        &self.path.entity
    }

    /// Whether it receives from a subscription that it owns.
    pub(super) const fn is_subscriber(&self) -> bool {
        self.plain_subscription.is_some()
    }

    /// Whether its attach is answered.
    pub(super) const fn is_open(&self) -> bool {
        self.attach.is_none()
    }

    /// Deliveries that the peer has not settled.
    pub(crate) const fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Whether it was given a session.
    pub(crate) const fn is_in_session(&self) -> bool {
        self.held_session.is_some()
    }

    /// The session that it was given, if it receives from this entity. The lock of the session may have ended since.
    pub(crate) fn held_session(&self, path: &EntityPath) -> Option<&str> {
        self.held_session.as_deref().filter(|_| self.receives_from(path))
    }

    /// Whether it only looks on at this entity.
    pub(crate) fn looks_on_at(&self, path: &EntityPath) -> bool {
        self.looks_on && self.receives_from(path)
    }

    fn receives_from(&self, path: &EntityPath) -> bool {
        self.path.sub_queue == path.sub_queue && self.path.entity.eq_ignore_ascii_case(&path.entity)
    }

    /// First half of the message-ids made for messages without one.
    pub(crate) const fn id_base(&self) -> u64 {
        self.id_base
    }

    /// The subscription that is given up with the link.
    pub(super) fn ends(&self, closed: bool) -> Option<Box<str>> {
        self.plain_subscription.as_ref()?.ends(closed)
    }

    /// Rule for a disposition of the peer.
    pub(crate) fn rule(&self, dialect: Dialect, settled: bool, said: PeerState) -> SettlementRule {
        rules::settlement(dialect, self.mode, settled, said, self.default_outcome)
    }

    /// Reads what the next delivery needs, and says nothing.
    pub(crate) const fn prefetch(&self) -> u64 {
        self.delivered ^ self.announced ^ self.unsettled as u64
    }

    /// The core hands out a message: its number.
    #[inline]
    pub(crate) const fn on_delivery(&mut self) -> u64 {
        self.delivered += 1;
        self.delivered
    }

    /// Whether a delivery goes out settled.
    pub(crate) const fn sends_settled(&self, locked: bool) -> bool {
        match self.mode {
            SenderSettleMode::Settled => true,
            SenderSettleMode::Mixed => !locked,
            SenderSettleMode::Unsettled => false,
        }
    }

    /// Whether a message of this size is dead-lettered instead of sent. A dead letter has nowhere else to go: it is
    /// sent, and the peer says what it does with it.
    pub(crate) fn sets_aside(&self, bytes: u64) -> bool {
        self.max_message_bytes.is_some_and(|limit| bytes > limit) && self.path.sub_queue == SubQueue::Main
    }

    /// A delivery went out unsettled.
    #[inline]
    pub(crate) const fn on_sent_unsettled(&mut self) {
        self.unsettled += 1;
    }

    /// A delivery is settled: its place is free for another.
    pub(crate) fn on_settled(&mut self, id: LinkId, cx: &mut Cx) {
        self.unsettled = self.unsettled.saturating_sub(1);
        self.raise(id, cx);
    }

    /// Deliveries did not go out, of which so many were to be unsettled. The core counted them, the peer did not.
    pub(crate) fn on_unsent(&mut self, id: LinkId, deliveries: usize, unsettled: u32, cx: &mut Cx) {
        self.unsettled = self.unsettled.saturating_sub(unsettled);
        self.offset += i64::try_from(deliveries).unwrap_or(0);
        self.raise(id, cx);
    }

    /// A message was set aside, and the credit that the core counted for it is made up for.
    pub(crate) fn on_set_aside(&mut self, id: LinkId, cx: &mut Cx) {
        self.offset += 1;
        self.raise(id, cx);
    }

    /// The peer says how many deliveries it wants.
    pub(crate) fn on_flow(&mut self, id: LinkId, limit: u64, drain: bool, cx: &mut Cx) {
        self.limit = limit;
        let limit = self.allowed(cx.config.max_unsettled);
        let withdrawn = mem::replace(&mut self.draining, drain) && !drain;
        if drain {
            await_drained(&mut self.drains, (self.limit, limit));
        } else if limit == self.announced && !withdrawn {
            return;
        }
        self.announced = limit;
        cx.commands.push(Command::Credit { consumer: id, limit, drain });
    }

    /// The core has given up the rest of the link's credit.
    pub(crate) fn on_drained(&mut self, key: LinkKey, count: u64, cx: &mut Cx) {
        // Drains that the core met in one go it answers in one go.
        let Some(limit) = drained_to(&mut self.drains, count) else { return };
        self.draining &= !self.drains.is_empty();
        self.delivered = count;
        // The peer counts to its own limit, the core to the one it was told.
        self.offset = count.wrapping_sub(limit).cast_signed();
        cx.engine.drained(key, limit);
    }

    /// Raises the core's credit limit when the peer has granted more and a quarter of the window, or all that was missing, is
    /// settled. An open drain continues up to the new limit; the core's answer for the old limit no longer ends it.
    pub(crate) fn raise(&mut self, id: LinkId, cx: &mut Cx) {
        let wanted = self.wanted();
        if self.announced >= wanted {
            return;
        }
        let most = cx.config.max_unsettled;
        let limit = self.allowed(most);
        if limit < wanted && limit < self.announced.saturating_add(u64::from(most / 4).max(1)) {
            return;
        }
        self.announced = limit;
        let offset = self.offset;
        for (peer, core) in &mut self.drains {
            *core = (*core).max(peer.saturating_add_signed(offset).min(limit));
        }
        cx.commands.push(Command::Credit { consumer: id, limit, drain: self.draining });
    }

    /// The peer's limit in the core's count.
    const fn wanted(&self) -> u64 {
        self.limit.saturating_add_signed(self.offset)
    }

    /// The limit that the core may have: the peer's, as long as few enough deliveries are unsettled. Where all go out
    /// settled there is nothing to bound.
    fn allowed(&self, most: u32) -> u64 {
        if self.looks_on {
            return self.delivered;
        }
        if self.mode == SenderSettleMode::Settled {
            return self.wanted();
        }
        self.wanted().min(self.delivered.saturating_add(u64::from(most.saturating_sub(self.unsettled))))
    }

    /// The broker has detached the link: nothing more is wanted, whatever is settled.
    pub(super) fn stop_credit(&mut self) {
        self.announced = u64::MAX;
        self.drains.clear();
        self.plain_subscription = None;
    }
}

/// Notes the limits of a drain, the peer's and the core's, that is to be answered. Whoever asks again and again, and takes
/// nothing of what it was sent, has all but the first answered with the last.
fn await_drained(drains: &mut VecDeque<(u64, u64)>, limits: (u64, u64)) {
    drains.truncate(DRAINS_MAX - 1);
    drains.push_back(limits);
}

/// Forgets the drains that an answer at the core's `count` is for; says the peer's limit of the latest.
fn drained_to(drains: &mut VecDeque<(u64, u64)>, count: u64) -> Option<u64> {
    let answered = drains.iter().rposition(|(_, core)| *core <= count)?;
    drains.drain(..=answered).next_back().map(|(peer, _)| peer)
}

#[cfg(test)]
mod tests;
