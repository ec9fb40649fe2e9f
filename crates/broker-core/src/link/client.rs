//! Clients and their links.
//!
//! Invariant: a consumer's `wait_state` names the one list of waiting consumers in which its number stands. The number of a closed consumer
//! may still stand in a ring, among the blocked ones, and among those that wait for the answer to a drain.

use std::collections::BTreeMap;

use crate::{
    ClientId, LinkId, QueueId, ReceiveMode, UnsettledPolicy,
    store::{
        partition::SequenceCursor,
        selection::Selection,
        sessions::{AcceptorNumber, SessionNumber},
        slot::ConsumerNumber,
    },
};

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub(crate) links: BTreeMap<LinkId, Link>,
    /// Payload bytes that may be handed out, absolute.
    pub(crate) budget: u64,
    /// Payload bytes handed out.
    pub(crate) delivered_bytes: u64,
    /// Bytes that a shorter payload counts as.
    pub(crate) min_bytes: u32,
    /// Consumers that have credit but no budget; some of them may be gone.
    pub(crate) blocked: Vec<ConsumerNumber>,
    /// Number of them that are.
    pub(crate) stale_consumers: usize,
}

impl Client {
    /// A blocked consumer has closed. Its number stays until there is budget, or until more than half of the numbers
    /// are stale: a search for each closed consumer would cost as much as there are numbers.
    pub(crate) fn leave_blocked(&mut self, is_there: impl Fn(ConsumerNumber) -> bool) {
        self.stale_consumers += 1;
        if 2 * self.stale_consumers > self.blocked.len() {
            self.blocked.retain(|number| is_there(*number));
            self.stale_consumers = 0;
        }
    }
}

/// Link of a client, by its role.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Link {
    Producer {
        queue: QueueId,
    },
    Consumer {
        number: ConsumerNumber,
    },
    /// A consumer that waits for a session.
    Acceptor {
        queue: QueueId,
        number: AcceptorNumber,
    },
}

/// Queue in which a consumer waits for its next message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitState {
    /// Nowhere: it has no credit.
    Idle,
    /// In its store's ring (or ring of browsers, or of those that select).
    Ring,
    /// Among its client's blocked ones.
    Blocked,
}

/// Relation of a consumer to its subscription, where that was created for it.
#[derive(Debug, Default)]
pub(crate) enum SubscriptionRole {
    /// Nothing, or it shares one that stays.
    #[default]
    Shared,
    /// Identity of a durable subscriber that does not share its subscription: its next link replaces this one.
    Owner(Box<str>),
    /// The subscription is deleted with its last receiver.
    Temporary,
}

/// One receiving link.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) client: ClientId,
    pub(crate) link: LinkId,
    pub(crate) queue: QueueId,
    pub(crate) mode: ReceiveMode,
    pub(crate) unsettled: UnsettledPolicy,
    /// Deliveries at which to stop, absolute.
    pub(crate) limit: u64,
    /// Deliveries made, and credit that a drain used up.
    pub(crate) count: u64,
    /// A drain is to be answered.
    pub(crate) drain: bool,
    /// It stands among those of its store that wait for such an answer, perhaps for one that it has had.
    pub(crate) is_listed: bool,
    pub(crate) wait_state: WaitState,
    /// It was given a lock at some time.
    pub(crate) took_locks: bool,
    /// Position at which a browsing consumer continues.
    pub(crate) browse_cursor: SequenceCursor,
    /// It wants some of the messages only.
    pub(crate) selection: Option<Box<Selection>>,
    pub(crate) subscription_role: SubscriptionRole,
    /// The session that it holds. Such a consumer stands in no ring: its session stands in turn.
    pub(crate) session: Option<SessionNumber>,
}

impl Consumer {
    pub(crate) fn has_credit(&self) -> bool {
        self.count < self.limit
    }

    /// Whether it takes messages out of their order, because it wants some of them only.
    pub(crate) fn selects(&self) -> bool {
        self.selection.is_some() && self.mode != ReceiveMode::Browse
    }

    /// Looks at it everywhere; what it gives means nothing.
    pub(crate) fn prefetch(&self) -> u64 {
        self.count ^ u64::from(self.link.0) ^ u64::from(self.took_locks)
    }
}

#[cfg(test)]
mod tests;
