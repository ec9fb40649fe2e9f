//! Credit that connections get back when the node has handled their commands.
//!
//! Invariant: a connection gets back what its commands weigh, once, and not while one of them is deferred.

use std::sync::Arc;

use broker_core::ClientId;
use broker_node::NamespaceId;

use crate::effect_queue::EffectQueue;

/// Bytes of handled commands whose credit is still to be released, also of closed connections: all share one account.
#[derive(Debug, Default)]
pub(crate) struct CreditDue(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    client: (NamespaceId, ClientId),
    effect_queue: Arc<EffectQueue>,
    bytes: usize,
}

impl CreditDue {
    /// Notes a batch of commands.
    pub(crate) fn add(
        &mut self,
        client: (NamespaceId, ClientId),
        effect_queue: &Arc<EffectQueue>,
        bytes: usize,
    ) {
        self.0.push(Entry { client, effect_queue: Arc::clone(effect_queue), bytes });
    }

    /// A batch was handled. Where others are deferred, credit is released once, at the end of the step: each release visits all
    /// entries, so one for each batch would cost the square of their number.
    pub(crate) fn on_handled(
        &mut self,
        any_deferred: bool,
        has_deferred: impl FnMut((NamespaceId, ClientId)) -> bool,
    ) {
        if !any_deferred {
            self.release(has_deferred);
        }
    }

    /// Releases what is due to connections of which no command is deferred.
    pub(crate) fn release(&mut self, mut has_deferred: impl FnMut((NamespaceId, ClientId)) -> bool) {
        self.0.retain(|Entry { client, effect_queue, bytes }| {
            let waits = has_deferred(*client);
            if !waits {
                effect_queue.processed(*bytes);
            }
            waits
        });
    }
}

#[cfg(test)]
mod tests;
