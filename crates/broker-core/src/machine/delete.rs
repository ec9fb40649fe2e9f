//! Messages are deleted in bulk (`service-bus-entities` 19).
//!
//! Invariant: what is locked, deferred or scheduled stays, and what belongs to a session that another client holds;
//! the others go in the retrieval order. In a store without sessions no message that stays is looked at twice for it; in
//! one with sessions a pump looks at a bounded number of them.

use super::{
    Core,
    peek::{Lookup, PASSED_MAX, What},
    status::Use,
};
use crate::{
    ClientId, Effect, EntityError, EntityPath, Output, QueueId, Ticket, Timestamp,
    sessions::{Hold, Session, SessionNumber},
};

/// A deletion in a store with sessions, and how far it has come.
#[derive(Debug)]
pub(super) struct DeleteRequest {
    path: EntityPath,
    session: Option<Box<str>>,
    count: u32,
    before: Timestamp,
    from: u64,
    deleted: u32,
}

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
            let (path, session) = (path.clone(), session.map(Box::from));
            let request = DeleteRequest { path, session, count, before, from: 0, deleted: 0 };
            return self.lookups.push_back(Lookup { client, ticket, what: What::Delete(request) });
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

    /// The same where messages belong to sessions: those that nobody else holds. `None`: there is more to look at.
    pub(super) fn delete_in_sessions(
        &mut self,
        client: ClientId,
        request: &mut DeleteRequest,
        out: &mut impl Output,
    ) -> Result<Option<u32>, EntityError> {
        let missing = || EntityError::NotFound(request.path.entity.clone());
        let queue = self.resolve(&request.path).ok_or_else(missing)?;
        self.check_use(queue, Use::Receive)?;
        self.check_no_partitions(queue)?;
        let mut passed = 0;
        while request.deleted < request.count {
            let store = self.stores.get(&queue).ok_or_else(missing)?;
            let Some(sequence) = store.next_of_session(request.session.as_deref(), request.from) else {
                break;
            };
            let old = store.slots.get(sequence).filter(|slot| slot.enqueued_at() < request.before);
            let Some(slot) = old else { break };
            if passed >= PASSED_MAX {
                return Ok(None);
            }
            passed += 1;
            request.from = sequence + 1;
            let hold = store.session(SessionNumber(slot.holder.0)).map(Session::hold);
            if slot.is_ready() && self.may_delete(client, hold) {
                self.discard(queue, sequence, out);
                request.deleted += 1;
            }
        }
        Ok(Some(request.deleted))
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

    fn may_delete(&self, client: ClientId, hold: Option<Hold>) -> bool {
        match hold {
            Some(Hold::Free) => true,
            Some(Hold::Held(holder)) => holder
                .consumer
                .and_then(|number| self.consumers.get(&number))
                .is_some_and(|consumer| consumer.client == client),
            Some(Hold::Ending) | None => false,
        }
    }
}
