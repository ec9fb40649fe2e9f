//! Messages are deleted in bulk (`service-bus-entities` 19).
//!
//! Invariant: what is locked, deferred or scheduled stays, and what belongs to a session that another client holds;
//! the others go in the retrieval order. No message that stays is looked at for it, beside the one at which a deletion ends.

use std::collections::BTreeSet;

use super::{Core, status::Use};
use crate::{
    ClientId, Effect, EntityError, EntityPath, Output, QueueId, Ticket, Timestamp,
    client::Link,
    sessions::{Hold, Session, SessionNumber, Sessions},
    store::Store,
};

impl Core {
    pub(super) fn delete_messages(
        &mut self,
        client: ClientId,
        (path, session): (&EntityPath, Option<&str>),
        (count, before): (u32, Timestamp),
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let deleted = if self.has_sessions(path) {
            self.delete_in_sessions(client, (path, session), (count, before), out)
        } else if session.is_some() {
            // There is no such session.
            self.resolve(path).map(|_| 0).ok_or_else(|| EntityError::NotFound(path.entity.clone()))
        } else {
            self.delete_oldest(path, count, before, out)
        };
        let effect = match deleted {
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
        self.touch(queue);
        self.check_no_partitions(queue)?;
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

    fn has_sessions(&self, path: &EntityPath) -> bool {
        let store = self.resolve(path).and_then(|queue| self.stores.get(&queue));
        store.is_some_and(|store| store.sessions.is_some())
    }

    /// The same where messages belong to sessions: those that nobody else holds.
    fn delete_in_sessions(
        &mut self,
        client: ClientId,
        (path, session): (&EntityPath, Option<&str>),
        (count, before): (u32, Timestamp),
        out: &mut impl Output,
    ) -> Result<u32, EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        let queue = self.resolve(path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive)?;
        self.touch(queue);
        self.check_no_partitions(queue)?;
        let sessions = self.stores.get(&queue).and_then(|store| store.sessions.as_deref());
        let sessions = sessions.ok_or_else(missing)?;
        let firsts = |number: SessionNumber| sessions.get(number).and_then(Session::first_ready);
        // What nobody holds is in order already.
        let own: Vec<SessionNumber> = match session {
            None => self.held_by(client, queue),
            Some(id) => sessions
                .find(id)
                .filter(|number| self.may_delete(client, sessions, *number))
                .into_iter()
                .collect(),
        };
        let mut own: BTreeSet<(u64, SessionNumber)> =
            own.into_iter().filter_map(|number| Some((firsts(number)?, number))).collect();
        let mut deleted = 0;
        while deleted < count {
            let Some(store) = self.stores.get_mut(&queue) else { break };
            let free = if session.is_none() { next_free(store) } else { None };
            let Some((sequence, number)) = own.first().copied().into_iter().chain(free).min() else { break };
            #[cfg(test)]
            {
                store.looked_at += 1;
            }
            // Later numbers were enqueued later.
            if store.slots.get(sequence).is_none_or(|slot| slot.enqueued_at() >= before) {
                break;
            }
            let was_own = own.remove(&(sequence, number));
            self.discard(queue, sequence, out);
            deleted += 1;
            let next = self.stores.get(&queue).and_then(|store| store.session(number)?.first_ready());
            own.extend(next.filter(|_| was_own).map(|next| (next, number)));
        }
        Ok(deleted)
    }

    /// The sessions of a store that a client holds.
    fn held_by(&self, client: ClientId, queue: QueueId) -> Vec<SessionNumber> {
        let links = self.clients.get(&client).into_iter().flat_map(|client| client.links.values());
        let sessions = links.filter_map(|link| {
            let Link::Consumer { number } = link else { return None };
            self.consumers.get(number).filter(|consumer| consumer.queue == queue)?.session
        });
        sessions.collect()
    }

    /// The oldest messages are those with the lowest numbers only where there is one row of numbers.
    fn check_no_partitions(&self, queue: QueueId) -> Result<(), EntityError> {
        match self.main_of(queue) {
            Some(entity) if entity.definition.partitions.is_some() => {
                Err(EntityError::HasPartitions(entity.definition.name.clone()))
            }
            _ => Ok(()),
        }
    }

    fn may_delete(&self, client: ClientId, sessions: &Sessions, number: SessionNumber) -> bool {
        match sessions.get(number).map(Session::hold) {
            Some(Hold::Free) => true,
            Some(Hold::Held(holder)) => holder
                .consumer
                .and_then(|number| self.consumers.get(&number))
                .is_some_and(|consumer| consumer.client == client),
            Some(Hold::Ending) | None => false,
        }
    }
}

/// The oldest message of the sessions that nobody holds.
fn next_free(store: &Store) -> Option<(u64, SessionNumber)> {
    store.sessions.as_ref()?.next_available().map(|(number, sequence)| (sequence, number))
}
