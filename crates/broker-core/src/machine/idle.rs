//! Entities that nobody uses delete themselves (`service-bus-entities` 15).
//!
//! Invariant: an entity with such a setting stands in the table once; it is never deleted before the whole time has
//! passed since something last happened to it. A restart counts as something.

use std::collections::{BTreeMap, BTreeSet};

use super::Core;
use crate::{
    EntityKind, Output, QueueId, Timestamp,
    client::{Consumer, Link},
    record::Definition,
    store::{Role, Store},
};

/// When to look at which entity.
#[derive(Debug, Default)]
pub(super) struct Idle {
    times: BTreeSet<(Timestamp, QueueId)>,
    of: BTreeMap<QueueId, Timestamp>,
}

impl Idle {
    /// Looks at the entity then, instead of whenever it was to be looked at.
    pub(super) fn look_at(&mut self, queue: QueueId, at: Timestamp) {
        self.forget(queue);
        self.times.insert((at, queue));
        self.of.insert(queue, at);
    }

    /// The entity is gone, or stays for ever.
    pub(super) fn forget(&mut self, queue: QueueId) {
        if let Some(at) = self.of.remove(&queue) {
            self.times.remove(&(at, queue));
        }
    }

    /// When to look next.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.times.first().map(|(at, _)| *at)
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<QueueId> {
        let (_, queue) = self.times.first().copied().filter(|(at, _)| *at <= now)?;
        self.forget(queue);
        Some(queue)
    }
}

impl Core {
    /// Somebody sent, received or looked: that is an access, and counts as use.
    pub(super) fn touch(&mut self, queue: QueueId) {
        if let Some(store) = self.stores.get_mut(&queue) {
            store.touched_at = self.now;
        }
    }

    /// Something was done to an entity that counts as use, and is no access.
    pub(super) fn mark_used(&mut self, queue: QueueId) {
        let now = self.now;
        if let Some(Role::Main(entity)) = self.stores.get_mut(&queue).map(|store| &mut store.role) {
            entity.used_at = now;
        }
    }

    /// A lock of one of its messages or sessions ran out: up to its end, whenever that is noticed, it was use.
    pub(super) fn was_used_until(&mut self, queue: QueueId, at: Timestamp) {
        let of = match self.stores.get(&queue).map(|store| &store.role) {
            Some(Role::DeadLetter { of } | Role::TransferDeadLetter { of }) => *of,
            _ => queue,
        };
        if let Some(Role::Main(entity)) = self.stores.get_mut(&of).map(|store| &mut store.role) {
            entity.used_at = entity.used_at.max(at);
        }
    }

    /// When an entity was last accessed, as far as is known; zero for never.
    pub(super) fn accessed_at(&self, definition: &Definition) -> Timestamp {
        let stores = definition.stores.all();
        let touched = stores.iter().filter_map(|id| Some(self.stores.get(id)?.touched_at));
        touched.fold(definition.accessed_at, Timestamp::max)
    }

    /// Deletes what has been idle for long enough, until `left` is used up.
    pub(super) fn delete_idle(&mut self, now: Timestamp, mut left: u32, out: &mut impl Output) {
        while left > 0
            && let Some(queue) = self.idle.pop_due(now)
        {
            left -= 1;
            let Some(definition) = self.main_of(queue).map(|entity| &entity.definition) else { continue };
            let Some(period) = definition.settings.auto_delete_on_idle else { continue };
            let name = definition.name.clone();
            // From the first look on it is known since when nothing has happened.
            let used_at = self.used_at(queue);
            let idle_since = if self.is_in_use(queue) { now } else { used_at };
            let end = idle_since.after(period);
            if end > now {
                self.idle.look_at(queue, end);
            } else {
                // It is there, so this cannot be refused.
                let _done = self.delete_entity(&name, None, out);
            }
        }
    }

    /// When the entity was last used; now, for one that nothing happened to since the start.
    fn used_at(&mut self, queue: QueueId) -> Timestamp {
        let now = self.now;
        let used = self.parts(queue).into_iter().filter_map(|id| {
            let store = self.stores.get_mut(&id)?;
            let touched_at = store.touched_at;
            let Role::Main(entity) = &mut store.role else { return Some(touched_at) };
            if entity.used_at == Timestamp::default() {
                entity.used_at = now;
            }
            Some(touched_at.max(entity.used_at))
        });
        used.max().unwrap_or(now)
    }

    /// A pending schedule counts as use, and so does somebody who waits for messages or works on one.
    fn is_in_use(&self, queue: QueueId) -> bool {
        let has_schedule = self.stores.get(&queue).is_some_and(|store| store.counts.scheduled > 0);
        let parts = self.parts(queue);
        has_schedule
            || parts
                .iter()
                .filter_map(|id| self.stores.get(id))
                .any(|store| store.counts.locked > 0 || holds_session(store) || self.is_awaited(store))
    }

    fn is_awaited(&self, store: &Store) -> bool {
        store.links.iter().any(|(client, link)| {
            match self.clients.get(client).and_then(|client| client.links.get(link)) {
                Some(Link::Consumer { number }) => {
                    self.consumers.get(number).is_some_and(Consumer::has_credit)
                }
                Some(Link::Acceptor { .. }) => true,
                Some(Link::Producer { .. }) | None => false,
            }
        })
    }

    /// All stores whose use is the entity's: its own, and those of a topic's subscriptions.
    fn parts(&self, queue: QueueId) -> Vec<QueueId> {
        let Some(definition) = self.main_of(queue).map(|entity| &entity.definition) else {
            return Vec::new();
        };
        let mut parts = definition.stores.all().to_vec();
        if definition.kind == EntityKind::Topic {
            let subscriptions = self.subscriptions_of(queue);
            let definitions = subscriptions.filter_map(|id| Some(&self.main_of(id)?.definition));
            parts.extend(definitions.flat_map(|definition| definition.stores.all()));
        }
        parts
    }
}

/// Somebody holds a session of the store, whether or not messages of it are out.
fn holds_session(store: &Store) -> bool {
    store.sessions.as_ref().is_some_and(|sessions| sessions.next_end().is_some())
}
