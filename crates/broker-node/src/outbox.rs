//! Outbox: the effects of one round, grouped by client.
//!
//! Invariant: a client's effects keep their order.

use std::{collections::BTreeMap, iter, mem};

use broker_core::{ClientId, Effect};

use crate::NamespaceId;

/// Effects that one client may see now.
#[derive(Debug)]
pub struct Released {
    /// The namespace whose core made them.
    pub namespace: NamespaceId,
    pub client: ClientId,
    /// In order.
    pub effects: Vec<Effect>,
}

/// The effects of the current round. The client served last is kept at hand, for effects come in runs.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    current: Option<Recipient>,
    effects: Vec<Effect>,
    others: BTreeMap<Recipient, Vec<Effect>>,
    /// Number of effects of the last client of a round, as a capacity hint for the next one.
    before: usize,
}

/// A client of one namespace. The clients that each namespace has have the same numbers in all of them.
type Recipient = (NamespaceId, ClientId);

impl Outbox {
    /// Adds one effect. Returns its bytes, about, where it may be much larger than what was asked.
    #[inline]
    pub(crate) fn push(&mut self, namespace: NamespaceId, client: ClientId, effect: Effect) -> u64 {
        let bytes = weight(&effect);
        if self.current != Some((namespace, client)) {
            self.switch((namespace, client));
        }
        if self.effects.capacity() == 0 {
            self.effects.reserve(self.before);
        }
        // It is made in its place.
        self.effects.extend(iter::once_with(|| effect));
        bytes
    }

    fn switch(&mut self, recipient: Recipient) {
        let earlier = self.others.remove(&recipient).unwrap_or_default();
        let effects = mem::replace(&mut self.effects, earlier);
        if let Some(previous) = self.current.replace(recipient)
            && !effects.is_empty()
        {
            self.others.insert(previous, effects);
        }
    }

    /// True when there is nothing to release.
    pub(crate) fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.others.is_empty()
    }

    /// Takes everything collected, by client.
    pub(crate) fn take(&mut self) -> Vec<Released> {
        let mut released: Vec<Released> = mem::take(&mut self.others)
            .into_iter()
            .map(|((namespace, client), effects)| Released { namespace, client, effects })
            .collect();
        if let Some((namespace, client)) = self.current.take()
            && !self.effects.is_empty()
        {
            self.before = self.effects.len().min(AHEAD_MAX);
            released.push(Released { namespace, client, effects: mem::take(&mut self.effects) });
        }
        released
    }
}

/// Bytes of an answer to a request of a few words. Messages are not counted: what hands them out is bounded itself.
fn weight(effect: &Effect) -> u64 {
    match effect {
        Effect::SessionState { state: Some(state), .. } => state.len() as u64,
        Effect::SessionList { ids, .. } => ids.len() as u64 * ID_BYTES,
        Effect::Rules { rules, .. } => rules.len() as u64 * DESCRIPTION_BYTES,
        Effect::Described { entities, .. } => entities.len() as u64 * DESCRIPTION_BYTES,
        _ => 0,
    }
}

/// Estimated size of a session id, in bytes.
const ID_BYTES: u64 = 128;
/// Estimated size of the description of an entity or a rule, in bytes.
const DESCRIPTION_BYTES: u64 = 1 << 10;
/// Most effects that room is made for before they come.
const AHEAD_MAX: usize = 1_024;

#[cfg(test)]
mod tests;
