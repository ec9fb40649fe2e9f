//! Duplicate detection: a message whose id was seen before is dropped (`docs/features/duplicate-detection.md`).
//!
//! Invariant: an id is noted in the call that stores its message, and recorded in the same batch of the journal: a
//! crash loses both or none. An entity that does not detect duplicates has no history and pays nothing.

use std::borrow::Cow;

use crate::{
    Message, Timestamp,
    store::{Role, Store, history::Digest},
};

/// Whether the entity has not seen the message's id within its window; notes the id. Always true for a message without
/// id, and for an entity that does not detect duplicates. Call it once for each message that is to be stored, in order,
/// then [`EntityTable::note_history`](crate::entity::table::EntityTable::note_history).
#[inline]
pub(crate) fn is_first_copy(store: &mut Store, now: Timestamp, message: &Message) -> bool {
    let Some(history) = &mut store.history else { return true };
    let Some(id) = &message.message_id else { return true };
    // With partitions the id counts together with the key: messages of different partitions are not compared.
    let key = match &store.role {
        Role::Main(entity) if entity.definition.settings.enable_partitioning => {
            message.key(false).unwrap_or_default()
        }
        _ => Cow::default(),
    };
    let id = Digest::of(&key, id);
    if history.has(&id, now) {
        return false;
    }
    history.note(id, now);
    true
}
