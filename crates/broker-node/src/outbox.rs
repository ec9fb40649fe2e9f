//! Outbox: the effects of one round, grouped by client.
//!
//! Invariant: a client's effects keep their order.

use std::{collections::BTreeMap, iter, mem};

use broker_core::{ClientId, Effect};

/// Effects that one client may see now.
#[derive(Debug)]
pub struct Released {
    pub client: ClientId,
    /// In order.
    pub effects: Vec<Effect>,
}

/// The effects of the current round. The client served last is kept at hand, for effects come in runs.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    current: Option<ClientId>,
    effects: Vec<Effect>,
    others: BTreeMap<ClientId, Vec<Effect>>,
    /// Number of effects of the last client of a round, as a capacity hint for the next one.
    before: usize,
    /// Bytes of answers that may be much larger than what was asked.
    bytes: u64,
}

impl Outbox {
    /// Adds one effect.
    #[inline]
    pub(crate) fn push(&mut self, client: ClientId, effect: Effect) {
        self.bytes += weight(&effect);
        if self.current != Some(client) {
            self.switch(client);
        }
        if self.effects.capacity() == 0 {
            self.effects.reserve(self.before);
        }
        // It is made in its place.
        self.effects.extend(iter::once_with(|| effect));
    }

    fn switch(&mut self, client: ClientId) {
        let earlier = self.others.remove(&client).unwrap_or_default();
        let effects = mem::replace(&mut self.effects, earlier);
        if let Some(previous) = self.current.replace(client)
            && !effects.is_empty()
        {
            self.others.insert(previous, effects);
        }
    }

    /// Bytes of the large answers among them, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True when there is nothing to release.
    pub(crate) fn is_empty(&self) -> bool {
        self.effects.is_empty() && self.others.is_empty()
    }

    /// Takes everything collected, by client.
    pub(crate) fn take(&mut self) -> Vec<Released> {
        self.bytes = 0;
        let mut released: Vec<Released> = mem::take(&mut self.others)
            .into_iter()
            .map(|(client, effects)| Released { client, effects })
            .collect();
        if let Some(client) = self.current.take()
            && !self.effects.is_empty()
        {
            self.before = self.effects.len().min(AHEAD_MAX);
            released.push(Released { client, effects: mem::take(&mut self.effects) });
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
