//! Duplicate detection: a message whose id was seen before is dropped (`docs/features/duplicate-detection.md`).
//!
//! Invariant: an id is noted in the call that stores its message, and recorded in the same batch of the journal: a
//! crash loses both or none. An entity that does not detect duplicates has no history and pays nothing.

use super::admission::PublishChecks;
use crate::{
    Message, Output, PublishError, QueueId, Timestamp,
    call::Cx,
    history::Digest,
    store::{Entity, Role, Store},
};

impl Store {
    /// Whether the entity has not seen the message's id within its window; notes the id. Always true for a message
    /// without id, and where duplicates are not looked for. Call it once for each message that is to be stored, in
    /// order, then [`EntityTable::note_history`](super::table::EntityTable::note_history).
    #[inline]
    pub(crate) fn is_first_copy(&mut self, now: Timestamp, message: &Message) -> bool {
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

impl PublishChecks<'_> {
    /// Refuses messages whose ids cannot all be remembered.
    pub(crate) fn check_history(
        self,
        cx: &Cx<'_, impl Output>,
        store: &Store,
        entity: &Entity,
        messages: &[Message],
    ) -> Result<(), PublishError> {
        if store.history.is_none() {
            return Ok(());
        }
        let limit = self.messages.config.max_history_ids;
        let ids = messages.iter().filter(|message| message.message_id.is_some()).count() as u64;
        if self.messages.history_len + self.open_ids(cx) + ids > limit {
            return Err(PublishError::HistoryFull { entity: entity.definition.name.clone(), limit });
        }
        Ok(())
    }

    /// Ids noted in this call.
    pub(crate) fn open_ids(self, cx: &Cx<'_, impl Output>) -> u64 {
        let history = |id: &QueueId| self.messages.store(*id).and_then(|store| store.history.as_ref());
        cx.dirty_histories.iter().filter_map(history).map(|history| history.open_ids() as u64).sum()
    }
}
