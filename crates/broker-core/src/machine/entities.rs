//! Entities come, change and go.
//!
//! Invariant: a store number is not used twice in one process, so a late command cannot hit the wrong entity. A
//! subscription exists only while its topic does.

use std::time::Duration;

use super::Core;
use crate::{
    AttachError, ClientId, Effect, EntityError, EntityKind, EntityPath, EntitySettings, EntityVersion,
    Expiry, Output, Position, QueueId, QueueInfo, Rule, SUBSCRIPTIONS_PER_TOPIC, SubQueue, Ticket, Timestamp,
    authorization,
    client::{Link, Place},
    name,
    record::{Definition, Stores, encode_deleted},
    store::{Entity, Role, Store},
};

impl Core {
    /// The store of a path.
    pub(super) fn resolve(&self, path: &EntityPath) -> Option<QueueId> {
        let main = *self.names.get(&name::key(&path.entity))?;
        match path.sub_queue {
            SubQueue::Main => Some(main),
            SubQueue::DeadLetter => Some(self.stores_of(main)?.dead_letter),
            SubQueue::TransferDeadLetter => Some(self.stores_of(main)?.transfer_dead_letter),
        }
    }

    fn stores_of(&self, main: QueueId) -> Option<Stores> {
        Some(self.stores.get(&main)?.entity()?.definition.stores)
    }

    /// The store of a path; where it is missing and that is wanted, a queue is made with defaults.
    pub(super) fn resolve_or_create(
        &mut self,
        now: Timestamp,
        path: &EntityPath,
        auto_create: bool,
        out: &mut impl Output,
    ) -> Result<QueueId, EntityError> {
        if let Some(id) = self.resolve(path) {
            return Ok(id);
        }
        if !auto_create || name::split_subscription(&path.entity).is_some() {
            return Err(EntityError::NotFound(path.entity.clone()));
        }
        self.create_entity(now, &path.entity, EntityKind::Queue, self.config.auto_create.clone(), out)?;
        self.resolve(path).ok_or_else(|| EntityError::NotFound(path.entity.clone()))
    }

    /// The entity that a store belongs to.
    pub(super) fn main_of(&self, id: QueueId) -> Option<&Entity> {
        let store = self.stores.get(&id)?;
        match &store.role {
            Role::Main(entity) => Some(entity),
            Role::DeadLetter { of } | Role::TransferDeadLetter { of } => self.stores.get(of)?.entity(),
            Role::Unknown => None,
        }
    }

    /// What a link needs to know.
    pub(super) fn info(&self, id: QueueId) -> Option<QueueInfo> {
        let definition = &self.main_of(id)?.definition;
        let max_message_bytes = self.max_message_bytes(&definition.settings);
        Some(QueueInfo {
            queue: id,
            kind: definition.kind,
            name: definition.name.clone(),
            max_message_bytes,
            detects_duplicates: definition.settings.requires_duplicate_detection,
            partitioned: definition.settings.enable_partitioning,
        })
    }

    /// The smaller of the entity's and the broker's limit.
    pub(super) fn max_message_bytes(&self, settings: &EntitySettings) -> u64 {
        settings
            .max_message_bytes
            .map_or(self.config.max_message_bytes, |own| own.min(self.config.max_message_bytes))
    }

    /// Answers a request that concerns an entity.
    pub(super) fn answer_request(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        done: Result<(), EntityError>,
        out: &mut impl Output,
    ) {
        let effect = match done {
            Ok(()) => Effect::EntityDone { ticket },
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    pub(super) fn create_entity(
        &mut self,
        now: Timestamp,
        name: &str,
        kind: EntityKind,
        settings: EntitySettings,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        if kind == EntityKind::Subscription {
            return self.create_subscription(now, name, settings, vec![Rule::default_rule()], out);
        }
        self.create_bare_entity(now, name, kind, settings, out).map(drop)
    }

    /// Says the main store of the new entity. A subscription has no rules yet.
    pub(super) fn create_bare_entity(
        &mut self,
        now: Timestamp,
        name: &str,
        kind: EntityKind,
        settings: EntitySettings,
        out: &mut impl Output,
    ) -> Result<QueueId, EntityError> {
        let (name, topic) = self.check_name(name, kind)?;
        if self.names.contains_key(&name::key(&name)) {
            return Err(EntityError::AlreadyExists(name));
        }
        let mut settings = settings.check()?;
        self.config.profile.check(kind, &mut settings)?;
        self.check_subscriptions(topic)?;
        self.check_forwards(&name, kind, &mut settings)?;
        settings.status.check(kind)?;
        if kind == EntityKind::Subscription {
            settings.enable_partitioning = self.topic_has_partitions(topic);
        }
        let limit = self.config.max_entities;
        if self.names.len() as u64 >= limit {
            return Err(EntityError::LimitReached { what: "entities", limit });
        }
        let stores = self.next_stores()?;
        authorization::date(&mut settings.authorization, &[], now);
        let definition = Definition {
            kind,
            stores,
            topic,
            name,
            partitions: settings.enable_partitioning.then(Box::default),
            settings,
            next_sequence: 1,
            created_at: now,
            updated_at: now,
            accessed_at: Timestamp::default(),
        };
        let has_keys = !definition.settings.authorization.is_empty();
        self.adopt(definition, out);
        if has_keys {
            self.tell_keys(stores.queue, out);
        }
        Ok(stores.queue)
    }

    fn check_subscriptions(&self, topic: Option<QueueId>) -> Result<(), EntityError> {
        let limit = self.config.profile.max_subscriptions();
        match topic {
            Some(topic) if limit != u64::MAX && self.subscription_count(topic) >= limit => {
                Err(EntityError::LimitReached { what: SUBSCRIPTIONS_PER_TOPIC, limit })
            }
            _ => Ok(()),
        }
    }

    /// A subscription has partitions where its topic has some.
    fn topic_has_partitions(&self, topic: Option<QueueId>) -> bool {
        let topic = topic.and_then(|topic| self.stores.get(&topic)?.entity());
        topic.is_some_and(|topic| topic.definition.settings.enable_partitioning)
    }

    /// The name as it will be kept, and the store of a subscription's topic.
    pub(super) fn check_name(
        &self,
        name: &str,
        kind: EntityKind,
    ) -> Result<(Box<str>, Option<QueueId>), EntityError> {
        let invalid = || EntityError::InvalidName(name.into());
        let subscription = name::split_subscription(name);
        if kind != EntityKind::Subscription {
            // Such an address would name two things.
            let is_valid = name::is_valid(name) && subscription.is_none();
            return if is_valid { Ok((name.into(), None)) } else { Err(invalid()) };
        }
        let (topic, own) = subscription.ok_or_else(invalid)?;
        if !name::is_valid_subscription(own) {
            return Err(invalid());
        }
        let missing = || EntityError::NotFound(topic.into());
        let id = *self.names.get(&name::key(topic)).ok_or_else(missing)?;
        let topic =
            &self.main_of(id).filter(|e| e.definition.kind == EntityKind::Topic).ok_or_else(missing)?;
        Ok((name::subscription(&topic.definition.name, own), Some(id)))
    }

    /// Three numbers that no store had.
    fn next_stores(&mut self) -> Result<Stores, EntityError> {
        let all = EntityError::LimitReached { what: "store numbers", limit: u64::from(u32::MAX) };
        let first = self.next_store;
        self.next_store = first.checked_add(3).ok_or(all)?;
        Ok(Stores {
            queue: QueueId(first),
            dead_letter: QueueId(first + 1),
            transfer_dead_letter: QueueId(first + 2),
        })
    }

    /// Records a definition and makes its stores, or gives existing ones their role.
    pub(super) fn adopt(&mut self, definition: Definition, out: &mut impl Output) {
        let (position, length) = out.record(&definition.encode(), &[]);
        self.names.insert(name::key(&definition.name), definition.stores.queue);
        self.listed.enter(&definition);
        self.place(definition, position, length);
    }

    /// Gives the stores of a definition their role; makes them if they are missing.
    pub(super) fn place(&mut self, definition: Definition, position: Position, length: u32) {
        let Stores { queue, dead_letter, transfer_dead_letter } = definition.stores;
        let settings = &definition.settings;
        let (lock_duration, hold) = (settings.lock_duration, settings.hold);
        let window = settings.requires_duplicate_detection.then_some(settings.duplicate_detection_window);
        let seed = self.tokens.seed();
        let forwards = |target: &Option<Box<str>>| target.as_deref().map(name::key);
        let (forward_to, forward_dead) =
            (forwards(&settings.forward_to), forwards(&settings.forward_dead_lettered_to));
        // Nothing is known of its use yet: the first look begins the time.
        match settings.auto_delete_on_idle {
            Some(_) => self.idle.look_at(queue, Timestamp::default()),
            None => self.idle.forget(queue),
        }
        let has_partitions = definition.partitions.is_some();
        let entity = Entity { definition, position, length, used_at: Timestamp::default() };
        let roles = [
            (queue, Role::Main(Box::new(entity)), forward_to),
            (dead_letter, Role::DeadLetter { of: queue }, forward_dead),
            (transfer_dead_letter, Role::TransferDeadLetter { of: queue }, None),
        ];
        for (id, role, forwards) in roles {
            let store = self
                .stores
                .entry(id)
                .or_insert_with(|| Box::new(Store::new(id, Role::Unknown, lock_duration)));
            if let Role::Main(entity) = &role
                && entity.definition.settings.requires_session
            {
                store.sessions(seed);
            }
            store.role = role;
            if has_partitions {
                store.set_partitions();
            }
            store.lazy_expiry = self.config.expiry == Expiry::Lazy;
            store.lock_duration = lock_duration;
            store.hold = hold;
            store.forwards = forwards;
            if id == queue
                && let Some(window) = window
            {
                store.history(seed).window = window;
            }
            self.next_store = self.next_store.max(id.0.saturating_add(1));
        }
    }

    pub(super) fn update_entity(
        &mut self,
        now: Timestamp,
        name: &str,
        settings: EntitySettings,
        expected: Option<EntityVersion>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let missing = || EntityError::NotFound(name.into());
        let queue = *self.names.get(&name::key(name)).ok_or_else(missing)?;
        let entity = self.main_of(queue).ok_or_else(missing)?;
        if expected.is_some_and(|expected| expected != entity.definition.version()) {
            return Err(EntityError::Changed(entity.definition.name.clone()));
        }
        let mut settings = settings.check()?;
        self.config.profile.check(entity.definition.kind, &mut settings)?;
        self.check_forwards(&entity.definition.name, entity.definition.kind, &mut settings)?;
        if entity.definition.kind == EntityKind::Subscription {
            settings.enable_partitioning = entity.definition.settings.enable_partitioning;
        }
        settings.check_update(&entity.definition.settings)?;
        settings.status.check(entity.definition.kind)?;
        let before = &entity.definition.settings.authorization;
        authorization::date(&mut settings.authorization, before, now);
        let has_other_keys = settings.authorization != *before;
        let accessed_at = self.accessed_at(&entity.definition);
        // Two updates never have the same time: it is what tells the states of an entity apart.
        let updated_at = now.max(entity.definition.updated_at.after(Duration::from_millis(1)));
        let definition = Definition { settings, updated_at, accessed_at, ..entity.definition.clone() };
        out.release(entity.position, entity.length);
        self.adopt(definition, out);
        self.mark_used(queue);
        if has_other_keys {
            self.tell_keys(queue, out);
        }
        self.start_forwarding(now, queue, out);
        // A shorter window may have passed already.
        self.rearm(queue);
        self.close_forbidden(now, queue, out);
        Ok(())
    }

    pub(super) fn delete_entity(
        &mut self,
        name: &str,
        expected: Option<EntityVersion>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        // Removals of its messages must not come after its own.
        self.merge.flush(out);
        let key = name::key(name);
        let missing = || EntityError::NotFound(name.into());
        let entity = self.names.get(&key).and_then(|id| self.main_of(*id)).ok_or_else(missing)?;
        let definition = &entity.definition;
        if expected.is_some_and(|expected| expected != definition.version()) {
            return Err(EntityError::Changed(definition.name.clone()));
        }
        let mut gone = Vec::new();
        if definition.kind == EntityKind::Topic {
            gone = self.subscriptions_of(definition.stores.queue).collect();
        }
        gone.push(definition.stores.queue);
        for queue in gone {
            self.remove_entity(queue, out);
        }
        self.leaving.left = self.work_off_remains(self.leaving.left, out);
        Ok(())
    }

    fn remove_entity(&mut self, queue: QueueId, out: &mut impl Output) {
        let Some(entity) = self.stores.get(&queue).and_then(|store| store.entity()) else { return };
        let (stores, topic) = (entity.definition.stores, entity.definition.topic);
        let keys = &entity.definition.settings.authorization;
        let lost_keys = (!keys.is_empty()).then(|| entity.definition.name.clone());
        out.release(entity.position, entity.length);
        for rule in self.rules.remove_all(topic, queue) {
            out.release(rule.position, rule.length);
        }
        self.names.remove(&name::key(&entity.definition.name));
        self.listed.leave(entity.definition.kind, topic, &entity.definition.name);
        self.idle.forget(queue);
        let (position, length) = out.record(&encode_deleted(stores), &[]);
        // Like a removal, it outlives all that it speaks of.
        out.release(position, length);
        if let Some(name) = lost_keys {
            self.tell_keys_gone(name, out);
        }
        for id in stores.all() {
            if let Some(store) = self.stores.remove(&id) {
                self.dismantle(store, out);
            }
        }
    }

    /// Tells the links of a store that is gone; what it held is given back bit by bit.
    fn dismantle(&mut self, mut store: Box<Store>, out: &mut impl Output) {
        store.disarm(&mut self.timers);
        if let Some(history) = &store.history {
            self.remembered -= (history.len() - history.open_ids()) as u64;
        }
        let name: Box<str> = store.entity().map_or_else(Box::default, |it| it.definition.name.clone());
        for (client, link) in std::mem::take(&mut store.links) {
            let mut effect = Effect::EntityDeleted { link };
            if let Some(client) = self.clients.get_mut(&client) {
                match client.links.remove(&link) {
                    Some(Link::Consumer { number }) => {
                        let consumer = self.consumers.remove(&number);
                        if consumer.is_some_and(|consumer| consumer.place == Place::Blocked) {
                            client.leave_blocked(|blocked| self.consumers.contains_key(&blocked));
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
            self.merge.effect(client, effect, out);
        }
        // The record of its definition is given back already.
        store.role = Role::Unknown;
        self.remains.leave(store);
    }
}
