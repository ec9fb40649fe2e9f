//! Backpressure for replies of nodes that a client requests and does not read.
//!
//! Invariant: of the answers of `$cbs`, which anybody may ask, and of those of management nodes one connection keeps no more
//! bytes than each kind may have, and one answer.

use std::collections::VecDeque;

use amqp_engine::DeliveryId;

use crate::{
    condition::Refusal,
    gateway::Gateway,
    link::{LinkRole, NodeName},
};

/// The answers of one link that have not left.
#[derive(Debug, Default)]
pub(crate) struct UnreadReplies {
    /// Given to the engine, with their sizes in bytes, in order.
    given: VecDeque<(DeliveryId, u64)>,
    /// Their bytes, and those of the answers that wait for credit.
    bytes: u64,
}

impl UnreadReplies {
    /// An answer waits for credit.
    pub(crate) fn wait(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// One that waited is given to the engine, or lost.
    pub(crate) fn give(&mut self, id: Option<DeliveryId>, bytes: usize) {
        match id {
            Some(id) => self.given.push_back((id, bytes as u64)),
            None => self.bytes -= bytes as u64,
        }
    }

    /// Bytes that have not left, where `oldest` is the first delivery of the session that has not.
    pub(crate) fn bytes(&mut self, oldest: Option<DeliveryId>) -> u64 {
        while let Some((id, bytes)) = self.given.front().copied()
            && oldest.is_none_or(|oldest| id.precedes(oldest))
        {
            self.given.pop_front();
            self.bytes -= bytes;
        }
        self.bytes
    }
}

impl Gateway {
    /// Refuses one more answer of a node to a client that leaves too much unread already.
    pub(crate) fn check_unread(&mut self, node: &NodeName) -> Result<(), Refusal> {
        let of_cbs = *node == NodeName::Cbs;
        let limit =
            if of_cbs { self.config.max_unread_cbs_bytes } else { self.config.max_unread_answer_bytes };
        let mut unread = 0;
        for link in self.links.iter_mut() {
            let LinkRole::Replies(replies) = &mut link.role else { continue };
            if (replies.node == NodeName::Cbs) == of_cbs {
                unread += replies.unread.bytes(self.engine.oldest_unsent(link.key.session()));
            }
        }
        if unread <= limit { Ok(()) } else { Err(Refusal::UnreadAnswers { limit }) }
    }
}
