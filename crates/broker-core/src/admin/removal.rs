//! Deletion of entities: on request, with their last receiver, or when they are idle.
//!
//! Invariant: a subscription exists only while its topic does. The records of a deleted entity are released in bounded
//! steps.

use crate::{
    AttachError, Effect, EntityError, EntityKind, EntityVersion, Output, QueueId, Timestamp, Work,
    call::Cx,
    entity::name,
    link::client::{Link, WaitState},
    namespace::Namespace,
    record::encode_deleted,
    store::{Role, Store},
};

/// Deletes entities.
#[derive(Debug)]
pub(crate) struct EntityRemoval<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> EntityRemoval<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl EntityRemoval<'_> {
    pub(crate) fn delete_entity(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: &str,
        expected: Option<EntityVersion>,
    ) -> Result<(), EntityError> {
        // Removals of its messages must not come after its own.
        cx.flush();
        let key = name::key(name);
        let missing = || EntityError::NotFound(name.into());
        let entity = self
            .state
            .messages
            .entities
            .names
            .get(&key)
            .and_then(|id| self.state.main_of(*id))
            .ok_or_else(missing)?;
        let definition = &entity.definition;
        if expected.is_some_and(|expected| expected != definition.version()) {
            return Err(EntityError::Changed(definition.name.clone()));
        }
        let mut removed = Vec::new();
        if definition.kind == EntityKind::Topic {
            removed = self.state.messages.entities.subscriptions_of(definition.stores.queue).collect();
        }
        removed.push(definition.stores.queue);
        for queue in removed {
            self.remove_entity(cx, queue);
        }
        let room = cx.release_room();
        let left = self.drain_deletions(room, cx.out);
        cx.use_room(room, left);
        Ok(())
    }

    fn remove_entity(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let Some(entity) = self.state.messages.entities.stores.get(&queue).and_then(|store| store.entity())
        else {
            return;
        };
        let (stores, topic) = (entity.definition.stores, entity.definition.topic);
        let name = entity.definition.name.clone();
        let keys = &entity.definition.settings.authorization;
        let lost_keys = (!keys.is_empty()).then(|| entity.definition.name.clone());
        cx.out.release(entity.position, entity.length);
        let rules = self.state.messages.rules.remove_all(topic, queue);
        cx.out.charge(Work::LIST_ENTRY.times(1 + rules.len() as u64));
        for rule in rules {
            cx.out.release(rule.position, rule.length);
        }
        self.state.messages.entities.names.remove(&name::key(&entity.definition.name));
        self.state.messages.entities.listed.leave(entity.definition.kind, topic, &entity.definition.name);
        self.state.messages.entities.idle.forget(queue);
        let (position, length) = cx.out.record(&encode_deleted(stores), &[]);
        // Like a removal, it outlives all that it speaks of.
        cx.out.release(position, length);
        if let Some(name) = lost_keys {
            self.state.messages.entities.tell_keys_gone(cx, name);
        }
        if let Some(topic) = topic {
            cx.note_change(topic);
        }
        if let Some(owner) = self.state.messages.entities.dynamic.remove(queue) {
            cx.tell(owner, Effect::DynamicNodeGone { name });
        }
        for id in stores.all() {
            if let Some(store) = self.state.messages.entities.stores.remove(&id) {
                self.dismantle(cx, store);
            }
        }
    }

    /// Detaches the links of a deleted store, and queues its records for release in bounded steps.
    fn dismantle(&mut self, cx: &mut Cx<'_, impl Output>, mut store: Box<Store>) {
        self.state.messages.entities.agenda.disarm(&mut store);
        if let Some(history) = &store.history {
            self.state.messages.history_len -= (history.len() - history.open_ids()) as u64;
        }
        let name: Box<str> = store.entity().map_or_else(Box::default, |it| it.definition.name.clone());
        let attached = std::mem::take(&mut store.links.attached);
        cx.out.charge(Work::COMMAND.times(attached.len() as u64));
        for (client, link) in attached {
            let mut effect = Effect::EntityDeleted { link };
            if let Some(client) = self.state.links.clients.get_mut(&client) {
                match client.links.remove(&link) {
                    Some(Link::Consumer { number }) => {
                        let consumer = self.state.links.consumers.remove(&number);
                        if consumer.is_some_and(|consumer| consumer.wait_state == WaitState::Blocked) {
                            client.leave_blocked(|blocked| self.state.links.consumers.contains_key(&blocked));
                        }
                    }
                    Some(Link::Acceptor { .. }) => {
                        // It never was open.
                        let error = AttachError::NotFound(name.clone());
                        effect = Effect::AttachRefused { link, error };
                    }
                    Some(Link::Producer { .. }) | None => {}
                }
            }
            cx.tell(client, effect);
        }
        // The record of its definition is given back already.
        store.role = Role::Unknown;
        self.state.deletions.leave(store);
    }

    /// Deletes what has been idle for long enough, until `left` or the work of the call is used up.
    pub(crate) fn delete_idle(&mut self, cx: &mut Cx<'_, impl Output>, mut left: u32) {
        while left > 0
            && cx.out.work_left() > Work(0)
            && let Some(queue) = self.state.messages.entities.idle.pop_due(cx.now)
        {
            left -= 1;
            cx.out.charge(Work::LIST_ENTRY);
            let Some(definition) = self.state.main_of(queue).map(|entity| &entity.definition) else {
                continue;
            };
            let Some(period) = definition.settings.idle_time() else { continue };
            let name = definition.name.clone();
            // From the first look on it is known since when nothing has happened.
            let used_at = self.used_at(cx, queue);
            let idle_since = if self.is_in_use(queue) { cx.now } else { used_at };
            let end = idle_since.after(period);
            if end > cx.now {
                self.state.messages.entities.idle.look_at(queue, end);
            } else {
                // It is there, so this cannot be refused.
                let _done = self.delete_entity(cx, &name, None);
            }
        }
    }

    /// When the entity was last used; now, for one that nothing happened to since the start.
    pub(crate) fn used_at(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) -> Timestamp {
        let now = cx.now;
        let used = self.state.messages.entities.parts(queue).into_iter().filter_map(|id| {
            let store = self.state.store_mut(id)?;
            let touched_at = store.touched_at;
            let Role::Main(entity) = &mut store.role else { return Some(touched_at) };
            if entity.used_at == Timestamp::default() {
                entity.used_at = now;
            }
            Some(touched_at.max(entity.used_at))
        });
        used.max().unwrap_or(now)
    }

    /// A scheduled message counts as use, and so do a receiver with credit and a lock.
    fn is_in_use(&self, queue: QueueId) -> bool {
        let has_schedule = self.state.store(queue).is_some_and(|store| store.counts.scheduled > 0);
        let parts = self.state.messages.entities.parts(queue);
        has_schedule
            || parts.iter().filter_map(|id| self.state.store(*id)).any(|store| {
                store.counts.locked > 0 || holds_session(store) || self.state.links.is_awaited(store)
            })
    }

    /// Gives records back, until `left` is used up; says how much of that is left.
    pub(crate) fn drain_deletions(&mut self, mut left: u32, out: &mut impl Output) -> u32 {
        while left > 0
            && let Some(mut store) = self.state.deletions.next()
        {
            while left > 0 && self.give_one_back(&mut store, out) {
                left -= 1;
            }
            if left == 0 {
                self.state.deletions.put_back(store);
            }
        }
        left
    }

    /// Gives one record of a deleted store back, or the place of a session; false when nothing is left of it.
    fn give_one_back(&mut self, store: &mut Store, out: &mut impl Output) -> bool {
        if let Some(sequence) = store.slots.next(0) {
            let body = store.body_refs.remove(sequence);
            if let Some(slot) = store.slots.remove(sequence) {
                out.release(slot.position, slot.length);
            }
            if let Some(body) = body {
                self.state.messages.entities.drop_reference(body, out);
            }
            return true;
        }
        if let Some((position, length)) = store.history.as_mut().and_then(|history| history.pop_record()) {
            out.release(position, length);
            return true;
        }
        let Some(session) = store.sessions.as_mut().and_then(|sessions| sessions.pop()) else { return false };
        if let Some(state) = session.state() {
            out.release(state.position, state.length);
        }
        true
    }

    /// Deletes a temporary subscription, unless it has receivers.
    pub(crate) fn leave_temporary(&mut self, cx: &mut Cx<'_, impl Output>, subscription: QueueId) {
        let is_free = self.state.store(subscription).is_some_and(|store| store.links.consumers == 0);
        let name = self.state.main_of(subscription).filter(|_| is_free).map(|it| it.definition.name.clone());
        if let Some(name) = name {
            // It is there, so this cannot be refused.
            let _done = self.delete_entity(cx, &name, None);
        }
    }

    /// Deletes a subscriber's subscription, unless it has other receivers.
    pub(crate) fn unsubscribe(&mut self, cx: &mut Cx<'_, impl Output>, subscription: &str) {
        let is_own =
            name::split_subscription(subscription).is_some_and(|(_, own)| own.starts_with(name::OWN_PREFIX));
        let id = self.state.messages.entities.names.get(&name::key(subscription)).filter(|_| is_own);
        let is_free = id.and_then(|id| self.state.store(*id)).is_some_and(|store| store.links.consumers == 0);
        if is_free {
            // It is there, so this cannot be refused.
            let _done = self.delete_entity(cx, subscription, None);
        }
    }
}

/// Whether a session of the store is locked, with or without locked messages.
fn holds_session(store: &Store) -> bool {
    store.sessions.as_ref().is_some_and(|sessions| sessions.next_end().is_some())
}
