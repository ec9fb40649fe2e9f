//! Deletion of messages in bulk (`docs/features/service-bus.md`, "Management operations").
//!
//! Invariant: locked, deferred and scheduled messages stay, and so do those of a session that another client holds; the
//! others are deleted in the retrieval order. A deletion visits no message that stays, except the one at which it ends.

use std::collections::BTreeSet;

use crate::{
    Effect, EntityError, EntityPath, Output, QueueId, Ticket, Timestamp, Work,
    call::Cx,
    entity::status::Use,
    namespace::Namespace,
    store::{
        Store,
        sessions::{Session, SessionNumber},
    },
};

/// Deletes messages in bulk.
#[derive(Debug)]
pub(crate) struct BulkDeletion<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> BulkDeletion<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl BulkDeletion<'_> {
    pub(crate) fn delete_messages(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        session: Option<&str>,
        count: u32,
        before: Timestamp,
        ticket: Ticket,
    ) {
        let deleted = if self.state.messages.entities.has_sessions(path) {
            self.delete_in_sessions(cx, path, session, count, before)
        } else if session.is_some() {
            // There is no such session.
            self.state.resolve(path).map(|_| 0).ok_or_else(|| EntityError::NotFound(path.entity.clone()))
        } else {
            self.delete_oldest(cx, path, count, before)
        };
        let effect = match deleted {
            Ok(count) => {
                cx.out.charge(Work::MESSAGE.times(count.into()));
                Effect::Deleted { ticket, count }
            }
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        cx.reply(effect);
    }

    fn delete_oldest(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        count: u32,
        before: Timestamp,
    ) -> Result<u32, EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        let queue = self.state.resolve(path).ok_or_else(missing)?;
        self.state.messages.entities.check_use(queue, Use::Receive)?;
        self.state.messages.entities.touch(cx, queue);
        self.check_no_partitions(queue)?;
        let mut deleted = 0;
        while deleted < count {
            let store = self.state.store_mut(queue).ok_or_else(missing)?;
            let Some(sequence) = store.next_ready() else { break };
            // Later numbers were enqueued later.
            if store.slots.get(sequence).is_none_or(|slot| slot.enqueued_at() >= before) {
                break;
            }
            self.state.messages.entities.discard(cx, queue, sequence);
            deleted += 1;
        }
        Ok(deleted)
    }

    /// The same where messages belong to sessions: those of free sessions, and of the client's own.
    fn delete_in_sessions(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        session: Option<&str>,
        count: u32,
        before: Timestamp,
    ) -> Result<u32, EntityError> {
        let client = cx.client;
        let missing = || EntityError::NotFound(path.entity.clone());
        let queue = self.state.resolve(path).ok_or_else(missing)?;
        self.state.messages.entities.check_use(queue, Use::Receive)?;
        self.state.messages.entities.touch(cx, queue);
        self.check_no_partitions(queue)?;
        let sessions = self.state.store(queue).and_then(|store| store.sessions.as_deref());
        let sessions = sessions.ok_or_else(missing)?;
        let firsts = |number: SessionNumber| sessions.get(number).and_then(Session::first_ready);
        // Messages that no session holder has are in the retrieval order already.
        let own: Vec<SessionNumber> = match session {
            None => self.state.links.held_by(client, queue),
            Some(id) => sessions
                .find(id)
                .filter(|number| self.state.links.may_delete(client, sessions, *number))
                .into_iter()
                .collect(),
        };
        let mut own: BTreeSet<(u64, SessionNumber)> =
            own.into_iter().filter_map(|number| Some((firsts(number)?, number))).collect();
        let mut deleted = 0;
        while deleted < count {
            let Some(store) = self.state.store_mut(queue) else { break };
            let free = if session.is_none() { next_free(store) } else { None };
            let Some((sequence, number)) = own.first().copied().into_iter().chain(free).min() else { break };
            #[cfg(test)]
            {
                store.slots_visited += 1;
            }
            // Later numbers were enqueued later.
            if store.slots.get(sequence).is_none_or(|slot| slot.enqueued_at() >= before) {
                break;
            }
            let was_own = own.remove(&(sequence, number));
            self.state.messages.entities.discard(cx, queue, sequence);
            deleted += 1;
            let next = self.state.store(queue).and_then(|store| store.session(number)?.first_ready());
            own.extend(next.filter(|_| was_own).map(|next| (next, number)));
        }
        Ok(deleted)
    }

    /// The oldest messages are those with the lowest numbers only where there is one row of numbers.
    fn check_no_partitions(&self, queue: QueueId) -> Result<(), EntityError> {
        match self.state.main_of(queue) {
            Some(entity) if entity.definition.partitions.is_some() => {
                Err(EntityError::HasPartitions(entity.definition.name.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// The oldest message of the free sessions.
fn next_free(store: &Store) -> Option<(u64, SessionNumber)> {
    store.sessions.as_ref()?.next_available().map(|(number, sequence)| (sequence, number))
}
