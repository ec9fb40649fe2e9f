//! Rebuilding a store from replayed records.
//!
//! Invariant: after `rebuild` a store is as if the messages that replay left in it had just come, in order.

use super::{
    Counts, Store,
    partition::{Counters, PartitionId},
    slot::{Slot, State},
};
use crate::{Timestamp, record::Definition};

/// The highest numbers that replay saw.
#[derive(Debug, Default)]
pub(crate) struct ReplayedNumbers {
    /// Of those without a partition.
    pub(crate) plain: u64,
    /// Of each partition, the count that is next; there once a message of one was seen.
    pub(crate) partitions: Option<Box<Counters>>,
    /// When the last message was sent there.
    pub(crate) sent_at: Timestamp,
}

impl ReplayedNumbers {
    pub(crate) fn note(&mut self, sequence: u64) {
        if PartitionId::of_number(sequence).is_some() {
            self.partitions.get_or_insert_default().see(sequence);
        }
        self.plain = self.plain.max(sequence);
    }

    /// Takes in what another store of the entity saw.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.plain = self.plain.max(other.plain);
        self.sent_at = self.sent_at.max(other.sent_at);
        if let Some(others) = &other.partitions {
            self.partitions.get_or_insert_default().raise(others);
        }
    }

    /// New messages get higher numbers than the replayed ones.
    pub(crate) fn tell(&self, definition: &mut Definition) {
        definition.accessed_at = definition.accessed_at.max(self.sent_at);
        match &mut definition.partitions {
            None => definition.next_sequence = definition.next_sequence.max(self.plain + 1),
            Some(own) => self.partitions.iter().for_each(|seen| own.raise(seen)),
        }
    }
}

impl Store {
    /// Takes in a message of the journal, perhaps in place of an earlier record of it. With the session's id comes the
    /// seed for [`Sessions::new`].
    pub(crate) fn replay_message(&mut self, sequence: u64, mut slot: Slot, session: Option<(&str, u64)>) {
        if let Some((id, seed)) = session {
            slot.set_session(self.sessions(seed).get_or_create(id));
        } else if let Some(sessions) = &mut self.sessions {
            slot.set_session(sessions.get_or_create(""));
        }
        let replaced = self.slots.insert(sequence, slot).filter(|before| before.session() != slot.session());
        if let (Some(before), Some(sessions)) = (replaced, &mut self.sessions) {
            sessions.remove(before.session(), sequence);
        }
        self.update_session_state(sequence);
    }

    /// Replays the removal of a message.
    pub(crate) fn replay_removal(&mut self, sequence: u64) {
        if let (Some(slot), Some(sessions)) = (self.slots.remove(sequence), &mut self.sessions) {
            sessions.remove(slot.session(), sequence);
        }
    }

    /// Computes from the slots what replay left out. Nothing is locked and everything is in the retrieval order.
    pub(crate) fn rebuild(&mut self) {
        if let Some(history) = &mut self.history {
            history.finish();
        }
        self.counts = Counts::default();
        self.counts.bytes = self.sessions.as_ref().map_or(0, |sessions| sessions.state_bytes);
        self.order.begin_anew(&self.slots);
        let slots = std::mem::take(&mut self.slots);
        let mut due = Vec::new();
        for (sequence, slot) in slots.iter() {
            self.counts.add(slot);
            if slot.expires_at != Timestamp::MAX || slot.state == State::Scheduled {
                let dies_at = slot.dies_at();
                due.push((slot.due().map_or(dies_at, |due| due.min(dies_at)), sequence));
            }
        }
        if self.counts.bodies > 0 {
            self.visible.list(&slots);
        }
        self.slots = slots;
        // In order of time almost all of them go the short way.
        due.sort_unstable();
        for (_, sequence) in due {
            if let Some(slot) = self.slots.get(sequence).copied() {
                self.remind(sequence, &slot);
            }
        }
    }
}
