//! Duplicate detection: a message whose id was seen before is dropped (`docs/features/duplicate-detection.md`).
//!
//! Invariant: an id is noted in the call that stores its message, and recorded in the same batch of the journal: a
//! crash loses both or none. An entity that does not detect duplicates has no history and pays nothing.

use std::{borrow::Cow, collections::BTreeSet};

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
    let Some(id) = digest(&store.role, message) else { return true };
    if history.has(&id, now) {
        return false;
    }
    history.note(id, now);
    true
}

/// Number of ids that the entity would note if it took these messages: those that it has not seen within its window, each once.
pub(crate) fn new_ids(store: &Store, now: Timestamp, messages: &[Message]) -> u64 {
    let Some(history) = &store.history else { return 0 };
    let ids = messages.iter().filter_map(|message| digest(&store.role, message));
    ids.filter(|id| !history.has(id, now)).collect::<BTreeSet<_>>().len() as u64
}

/// The id of a message as the history of an entity with this role keeps it. With partitions it counts together with the key:
/// messages of different partitions are not compared.
fn digest(role: &Role, message: &Message) -> Option<Digest> {
    let id = message.message_id.as_deref()?;
    let key = match role {
        Role::Main(entity) if entity.definition.settings.enable_partitioning => {
            message.key(false).unwrap_or_default()
        }
        _ => Cow::default(),
    };
    Some(Digest::of(&key, id))
}
