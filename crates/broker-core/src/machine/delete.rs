//! Messages are deleted in bulk (`service-bus-entities` 19).
//!
//! Invariant: what is locked, deferred or scheduled stays; the others go in the retrieval order, and no message that
//! stays is looked at twice for it.

use super::{Core, status::Use};
use crate::{ClientId, Effect, EntityError, EntityPath, Output, Ticket, Timestamp};

impl Core {
    pub(super) fn delete_messages(
        &mut self,
        client: ClientId,
        path: &EntityPath,
        count: u32,
        before: Timestamp,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self.delete_oldest(path, count, before, out) {
            Ok(count) => Effect::Deleted { ticket, count },
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    fn delete_oldest(
        &mut self,
        path: &EntityPath,
        count: u32,
        before: Timestamp,
        out: &mut impl Output,
    ) -> Result<u32, EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        let queue = self.resolve(path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive)?;
        let mut deleted = 0;
        while deleted < count {
            let store = self.stores.get_mut(&queue).ok_or_else(missing)?;
            let Some(sequence) = store.next_ready() else { break };
            // Later numbers were enqueued later.
            if store.slots.get(sequence).is_none_or(|slot| slot.enqueued_at() >= before) {
                break;
            }
            self.discard(queue, sequence, out);
            deleted += 1;
        }
        Ok(deleted)
    }
}
