//! Credit that connections get back when the node has handled their commands.
//!
//! Invariant: a connection gets back what its commands weigh, once, and not while one of them is deferred.

use std::{collections::BTreeMap, sync::Arc};

use broker_core::ClientId;
use broker_node::NamespaceId;

use crate::effect_queue::EffectQueue;

type Client = (NamespaceId, ClientId);

/// Bytes of handled commands whose credit is still to be released, also of closed connections: all share one account.
#[derive(Debug, Default)]
pub(crate) struct CreditDue {
    /// Batches since the last release.
    new: Vec<(Client, Entry)>,
    /// All batches of each client that had deferred commands then.
    waiting: BTreeMap<Client, Entry>,
}

#[derive(Debug)]
struct Entry {
    effect_queue: Arc<EffectQueue>,
    bytes: usize,
}

impl CreditDue {
    /// Notes a batch of commands.
    pub(crate) fn add(&mut self, client: Client, effect_queue: &Arc<EffectQueue>, bytes: usize) {
        self.new.push((client, Entry { effect_queue: Arc::clone(effect_queue), bytes }));
    }

    /// A client has no deferred commands any more, as far as the node knew.
    pub(crate) fn on_caught_up(&mut self, client: Client, has_deferred: impl FnOnce(Client) -> bool) {
        if let Some(entry) = self.waiting.remove(&client) {
            if has_deferred(client) {
                self.waiting.insert(client, entry);
            } else {
                entry.effect_queue.processed(entry.bytes);
            }
        }
    }

    /// Batches were handled: releases what is due to connections of which no command is deferred. Those that wait are not visited:
    /// there may be thousands of them in each round, and the node tells which have caught up.
    pub(crate) fn release(&mut self, mut has_deferred: impl FnMut(Client) -> bool) {
        for (client, entry) in self.new.drain(..) {
            if let Some(waiting) = self.waiting.get_mut(&client) {
                waiting.bytes += entry.bytes;
            } else if has_deferred(client) {
                self.waiting.insert(client, entry);
            } else {
                entry.effect_queue.processed(entry.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests;
