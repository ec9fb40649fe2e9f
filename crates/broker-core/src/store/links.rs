//! Links of a store, and the queues in which its consumers wait.
//!
//! Invariant: a consumer with credit stands in one of the rings; one that is gone may stand there too, until its turn
//! comes or until more than half of the entries are such.

use std::collections::{BTreeSet, VecDeque};

use super::{selection::Selectors, slot::ConsumerNumber};
use crate::{ClientId, LinkId};

/// Producers and consumers of one store.
#[derive(Debug, Default)]
pub(crate) struct StoreLinks {
    /// All producers and consumers.
    pub(crate) attached: BTreeSet<(ClientId, LinkId)>,
    /// Number of consumers among them.
    pub(crate) consumers: u64,
    /// Consumers with credit, in turn; some of them may be gone.
    pub(crate) ring: VecDeque<ConsumerNumber>,
    /// Browsing consumers with credit, in turn; some of them may be gone.
    pub(crate) browsers: VecDeque<ConsumerNumber>,
    /// Number of closed ones in both.
    pub(crate) stale_consumers: usize,
    /// Consumers that want some of the messages only, where there are any.
    pub(crate) selectors: Option<Box<Selectors>>,
    /// Consumers that wait for `Effect::Drained`, each once; some of them may be gone.
    pub(crate) draining: Vec<ConsumerNumber>,
}

impl StoreLinks {
    /// A consumer that waits in a ring has closed. Its number stays until its turn comes, or until more than half of
    /// the numbers are stale: a search for each closed consumer would cost as much as there are consumers.
    pub(crate) fn leave_ring(&mut self, is_there: impl Fn(ConsumerNumber) -> bool) {
        self.stale_consumers += 1;
        if 2 * self.stale_consumers > self.ring.len() + self.browsers.len() {
            self.ring.retain(|number| is_there(*number));
            self.browsers.retain(|number| is_there(*number));
            self.stale_consumers = 0;
        }
    }

    /// Tells the consumers with a selector of a message that became ready behind others: they may have passed it.
    pub(super) fn note_return(&mut self, sequence: u64) {
        if let Some(selectors) = &mut self.selectors {
            selectors.note(sequence);
        }
    }

    /// Whether a consumer with a selector waits for messages.
    pub(crate) fn selects_now(&self) -> bool {
        self.selectors.as_ref().is_some_and(|selectors| !selectors.ring.is_empty())
    }

    /// Whether a consumer waits for messages or for the answer to a drain.
    pub(crate) fn have_work(&self) -> bool {
        !self.ring.is_empty() || !self.browsers.is_empty() || !self.draining.is_empty() || self.selects_now()
    }
}
