//! Unfinished messages: what connections hold of messages of which more is to come.
//!
//! Reading cannot be put off until there is room, because only more input finishes a message. So the link of a message for which there
//! is no room is detached.
//!
//! Invariant: all connections together hold at most [`OWN_BYTES`] each, `max_in_flight_bytes` and, for each connection thread, what one
//! turn reads. Of `max_in_flight_bytes` namespaces share the last tenth.

use std::sync::Arc;

use crate::ingress_credit::IngressCredit;

/// Bytes of unfinished messages that a connection may hold, whatever the others hold.
const OWN_BYTES: usize = 2 << 20;

/// The unfinished messages of one connection.
#[derive(Debug)]
pub(crate) struct UnfinishedShare {
    account: Arc<IngressCredit>,
    /// Bytes beyond its own that it has in the account.
    counted: usize,
}

impl UnfinishedShare {
    /// The share of a connection that holds nothing, in an account.
    pub(crate) const fn of(account: Arc<IngressCredit>) -> Self {
        Self { account, counted: 0 }
    }

    /// From now on what the connection holds counts in this account.
    pub(crate) fn count_in(&mut self, account: Arc<IngressCredit>) {
        self.account.count_unfinished(self.counted, 0);
        account.count_unfinished(0, self.counted);
        self.account = account;
    }

    /// Most bytes that the connection may hold.
    pub(crate) fn limit(&self) -> usize {
        OWN_BYTES.saturating_add(self.counted).saturating_add(self.account.unfinished_left())
    }

    /// The connection holds `bytes`.
    pub(crate) fn count(&mut self, bytes: usize) {
        let counted = bytes.saturating_sub(OWN_BYTES);
        if counted != self.counted {
            self.account.count_unfinished(self.counted, counted);
            self.counted = counted;
        }
    }
}

impl Drop for UnfinishedShare {
    fn drop(&mut self) {
        self.account.count_unfinished(self.counted, 0);
    }
}

#[cfg(test)]
mod tests;
