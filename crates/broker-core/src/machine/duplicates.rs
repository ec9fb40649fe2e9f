//! Messages whose id was seen before are dropped (`service-bus-entities` 9).
//!
//! Invariant: an id is noted in the call that stores its message, and recorded in the same batch of the journal: a
//! crash loses both or none. An entity that does not detect duplicates has no history and pays nothing.

use super::Core;
use crate::{
    Message, Output, PublishError, QueueId, Timestamp,
    history::Digest,
    store::{Entity, Role, Store},
};

impl Store {
    /// Whether the entity has not seen the message's id within its window; notes the id. Always true for a message
    /// without id, and where duplicates are not looked for. Call it once for each message that is to be stored, in
    /// order, then [`Core::note_history`].
    #[inline]
    pub(super) fn is_first_copy(&mut self, now: Timestamp, message: &Message) -> bool {
        let Some(history) = &mut self.history else { return true };
        let Some(id) = &message.message_id else { return true };
        // However the message was read: the key counts where there are partitions.
        let key = match &self.role {
            Role::Main(entity) if entity.definition.settings.enable_partitioning => {
                message.key(false).unwrap_or_default()
            }
            _ => "",
        };
        let id = Digest::of(key, id);
        if history.has(&id, now) {
            return false;
        }
        history.note(id, now);
        true
    }
}

impl Core {
    /// Sees to it that what a store noted is recorded at the end of this call.
    #[inline]
    pub(super) fn note_history(&mut self, queue: QueueId) {
        let history = self.stores.get(&queue).and_then(|store| store.history.as_ref());
        if history.is_some_and(|history| history.is_open()) && !self.noted.contains(&queue) {
            self.noted.push(queue);
        }
    }

    /// Refuses messages whose ids cannot all be remembered.
    pub(super) fn check_history(
        &self,
        store: &Store,
        entity: &Entity,
        messages: &[Message],
    ) -> Result<(), PublishError> {
        if store.history.is_none() {
            return Ok(());
        }
        let limit = self.config.max_history_ids;
        let ids = messages.iter().filter(|message| message.message_id.is_some()).count() as u64;
        if self.remembered + self.open_ids() + ids > limit {
            return Err(PublishError::HistoryFull { entity: entity.definition.name.clone(), limit });
        }
        Ok(())
    }

    /// Ids noted in this call.
    fn open_ids(&self) -> u64 {
        let history = |id| self.stores.get(id).and_then(|store| store.history.as_ref());
        self.noted.iter().filter_map(history).map(|history| history.open_ids() as u64).sum()
    }

    /// Ends a call: what was gathered is recorded and told.
    #[inline]
    pub(super) fn finish_call(&mut self, out: &mut impl Output) {
        if !self.noted.is_empty() {
            self.record_histories(out);
        }
        self.merge.flush(out);
    }

    fn record_histories(&mut self, out: &mut impl Output) {
        for queue in std::mem::take(&mut self.noted) {
            let Some(store) = self.stores.get_mut(&queue) else { continue };
            let Some(history) = &mut store.history else { continue };
            self.remembered += history.open_ids() as u64;
            history.record(queue, out);
            store.arm(&mut self.timers);
        }
    }

    /// Forgets ids whose window has passed, at most about `left`; says how much of that is left.
    pub(super) fn forget_ids(
        &mut self,
        now: Timestamp,
        queue: QueueId,
        left: u32,
        out: &mut impl Output,
    ) -> u32 {
        let history = self.stores.get_mut(&queue).and_then(|store| store.history.as_mut());
        let Some(history) = history.filter(|history| history.forget_at().is_some_and(|at| at <= now)) else {
            return left;
        };
        let gone = history.forget(queue, now, left, out);
        self.remembered -= u64::from(gone);
        left.saturating_sub(gone)
    }
}
