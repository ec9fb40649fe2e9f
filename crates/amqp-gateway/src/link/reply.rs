//! Link on which the peer receives the answers of a node.
//!
//! Invariant: answers leave in order, and none without credit; bytes that the client leaves unread are counted until the
//! engine has sent them.

use std::collections::VecDeque;

use amqp_codec::{
    performative::Attach,
    types::{DeliveryTag, SenderSettleMode},
};
use amqp_engine::{DeliveryId, LinkKey, OutgoingDelivery};
use bytes::Bytes;

use super::attach_request::target_address;
use crate::{address::NodeName, cx::Cx, session::Session};

/// A link on which answers go.
#[derive(Debug)]
pub(crate) struct ReplyLink {
    node: NodeName,
    /// The address of the peer's own terminus.
    target_address: Option<Box<str>>,
    /// Whether answers go out settled.
    settled: bool,
    limit: u64,
    /// Answers sent.
    sent: u64,
    /// Answers that wait for credit: their sections, and the values of their bodies.
    waiting: VecDeque<(Bytes, Bytes)>,
    /// Bytes of answers that have not left.
    unread: UnreadReplies,
}

impl ReplyLink {
    /// A link that the peer asks for.
    pub(super) fn new(attach: &Attach, node: NodeName) -> Self {
        Self {
            node,
            target_address: target_address(attach).map(Box::from),
            settled: attach.snd_settle_mode == Some(SenderSettleMode::Settled),
            limit: 0,
            sent: 0,
            waiting: VecDeque::new(),
            unread: UnreadReplies::default(),
        }
    }

    /// The node whose answers it takes.
    pub(crate) const fn node(&self) -> &NodeName {
        &self.node
    }

    /// Whether this is the address of the peer's own terminus.
    pub(crate) fn is_at(&self, address: &str) -> bool {
        self.target_address.as_deref() == Some(address)
    }

    /// Number of answers that wait for credit.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of answers that have not left, where `oldest` is the first delivery of the session that has not.
    pub(crate) fn unread_bytes(&mut self, oldest: Option<DeliveryId>) -> u64 {
        self.unread.bytes(oldest)
    }

    /// An answer waits for credit.
    pub(crate) fn push(&mut self, sections: Bytes, body: Bytes) {
        self.unread.wait(sections.len() + body.len());
        self.waiting.push_back((sections, body));
    }

    /// The peer says how many answers it wants.
    pub(crate) fn on_flow(
        &mut self,
        key: LinkKey,
        limit: u64,
        drain: bool,
        session: Option<&mut Session>,
        cx: &mut Cx,
    ) {
        self.limit = limit;
        self.send(key, session, cx);
        if drain {
            self.sent = self.limit;
            cx.engine.drained(key, self.limit);
        }
    }

    /// Sends the answers that have credit.
    pub(crate) fn send(&mut self, key: LinkKey, mut session: Option<&mut Session>, cx: &mut Cx) {
        while self.sent < self.limit
            && let Some((sections, body)) = self.waiting.pop_front()
        {
            let tag = DeliveryTag::try_from(&self.sent.to_be_bytes()[..]).unwrap_or_else(|_| [0; 16].into());
            let outgoing = OutgoingDelivery {
                settled: self.settled,
                given: true,
                ..OutgoingDelivery::new(tag, sections, body)
            };
            let size = outgoing.len();
            let id = cx.engine.send(key, outgoing);
            self.unread.give(id, size);
            if id.is_some()
                && let Some(session) = &mut session
            {
                session.given(size);
            }
            self.sent += 1;
        }
    }
}

/// The answers of one link that have not left.
#[derive(Debug, Default)]
struct UnreadReplies {
    /// Given to the engine, with their sizes in bytes, in order.
    given: VecDeque<(DeliveryId, u64)>,
    /// Their bytes, and those of the answers that wait for credit.
    bytes: u64,
}

impl UnreadReplies {
    /// An answer waits for credit.
    fn wait(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// One that waited is given to the engine, or lost.
    fn give(&mut self, id: Option<DeliveryId>, bytes: usize) {
        match id {
            Some(id) => self.given.push_back((id, bytes as u64)),
            None => self.bytes -= bytes as u64,
        }
    }

    /// Bytes that have not left, where `oldest` is the first delivery of the session that has not.
    fn bytes(&mut self, oldest: Option<DeliveryId>) -> u64 {
        while let Some((id, bytes)) = self.given.front().copied()
            && oldest.is_none_or(|oldest| id.precedes(oldest))
        {
            self.given.pop_front();
            self.bytes -= bytes;
        }
        self.bytes
    }
}
