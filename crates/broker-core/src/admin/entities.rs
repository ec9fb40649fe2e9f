//! Entities come, change and go.
//!
//! Invariant: a store number is not used twice in one process, so a late command cannot hit the wrong entity. A
//! subscription exists only while its topic does.

use super::rules::RuleAdmin;
use crate::{
    EntityError, EntityKind, EntityPath, EntitySettings, Output, Position, QueueId, Rule,
    SUBSCRIPTIONS_PER_TOPIC, Timestamp,
    call::Cx,
    entity::{dynamic::is_dynamic_name, name},
    messages::Messages,
    record::{Definition, Stores},
    store::{Entity, Role, Store},
};

/// Creates entities.
#[derive(Debug)]
pub(crate) struct EntityAdmin<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> EntityAdmin<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl EntityAdmin<'_> {
    /// The store of a path; where it is missing and that is wanted, a queue is made with defaults.
    pub(crate) fn resolve_or_create(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        auto_create: bool,
    ) -> Result<QueueId, EntityError> {
        if let Some(id) = self.messages.resolve(path) {
            return Ok(id);
        }
        if !auto_create || name::split_subscription(&path.entity).is_some() || is_dynamic_name(&path.entity) {
            return Err(EntityError::NotFound(path.entity.clone()));
        }
        self.create_entity(cx, &path.entity, EntityKind::Queue, self.messages.config.auto_create.clone())?;
        self.messages.resolve(path).ok_or_else(|| EntityError::NotFound(path.entity.clone()))
    }

    pub(crate) fn create_entity(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: &str,
        kind: EntityKind,
        settings: EntitySettings,
    ) -> Result<(), EntityError> {
        if kind == EntityKind::Subscription {
            return self.create_subscription(cx, name, settings, vec![Rule::default_rule()]);
        }
        self.create_bare_entity(cx, name, kind, settings).map(drop)
    }

    /// Says the main store of the new entity. A subscription has no rules yet.
    fn create_bare_entity(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: &str,
        kind: EntityKind,
        settings: EntitySettings,
    ) -> Result<QueueId, EntityError> {
        let (name, topic) = self.messages.entities.check_name(name, kind)?;
        self.create_checked(cx, name, topic, kind, settings)
    }

    /// Creates a queue or topic with a name that no request of a client can have. Says its main store.
    pub(crate) fn create_named(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: Box<str>,
        kind: EntityKind,
        settings: EntitySettings,
    ) -> Result<QueueId, EntityError> {
        self.create_checked(cx, name, None, kind, settings)
    }

    /// Creates an entity whose name is checked.
    fn create_checked(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: Box<str>,
        topic: Option<QueueId>,
        kind: EntityKind,
        mut settings: EntitySettings,
    ) -> Result<QueueId, EntityError> {
        if self.messages.entities.names.contains_key(&name::key(&name)) {
            return Err(EntityError::AlreadyExists(name));
        }
        settings.take_foreign_flags(kind, &EntitySettings::default());
        let mut settings = settings.check()?;
        self.messages.config.profile.check(kind, &mut settings)?;
        self.check_subscriptions(topic)?;
        self.messages.entities.check_forwards(&name, kind, &mut settings)?;
        settings.status.check(kind)?;
        if kind == EntityKind::Subscription {
            settings.enable_partitioning = self.messages.entities.topic_has_partitions(topic);
        }
        cx.out.check_memory()?;
        let limit = self.messages.config.max_entities;
        if self.messages.entities.names.len() as u64 >= limit {
            return Err(EntityError::LimitReached { what: "entities", limit });
        }
        let stores = self.messages.entities.next_stores()?;
        let definition = Definition {
            kind,
            stores,
            topic,
            name,
            partitions: settings.enable_partitioning.then(Box::default),
            settings,
            next_sequence: 1,
            created_at: cx.now,
            updated_at: cx.now,
            accessed_at: Timestamp::default(),
        };
        let has_keys = !definition.settings.authorization.is_empty();
        self.adopt(definition, cx.out);
        if has_keys {
            self.messages.entities.tell_keys(cx, stores.queue);
        }
        Ok(stores.queue)
    }

    fn check_subscriptions(&self, topic: Option<QueueId>) -> Result<(), EntityError> {
        let limit = self.messages.config.profile.max_subscriptions();
        match topic {
            Some(topic) if limit != u64::MAX && self.messages.entities.subscription_count(topic) >= limit => {
                Err(EntityError::LimitReached { what: SUBSCRIPTIONS_PER_TOPIC, limit })
            }
            _ => Ok(()),
        }
    }

    /// Records a definition and makes its stores, or gives existing ones their role.
    pub(crate) fn adopt(&mut self, definition: Definition, out: &mut impl Output) {
        let (position, length) = out.record(&definition.encode(), &[]);
        self.messages.entities.names.insert(name::key(&definition.name), definition.stores.queue);
        self.messages.entities.listed.enter(&definition);
        self.place(definition, position, length);
    }

    /// Gives the stores of a definition their role; makes them if they are missing.
    pub(crate) fn place(&mut self, definition: Definition, position: Position, length: u32) {
        let Stores { queue, dead_letter, transfer_dead_letter } = definition.stores;
        let settings = &definition.settings;
        let (lock_duration, hold) = (settings.lock_duration, settings.hold);
        let window = settings.requires_duplicate_detection.then_some(settings.duplicate_detection_window);
        let seed = self.messages.tokens.seed();
        let forwards = |target: &Option<Box<str>>| target.as_deref().map(name::key);
        let (forward_to, forward_dead) =
            (forwards(&settings.forward_to), forwards(&settings.forward_dead_lettered_to));
        // Nothing is known of its use yet: the first look begins the time.
        match settings.idle_time() {
            Some(_) => self.messages.entities.idle.look_at(queue, Timestamp::default()),
            None => self.messages.entities.idle.forget(queue),
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
                .messages
                .entities
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
            store.lock_duration = lock_duration;
            store.lock_lifetime = hold;
            store.forwards = forwards;
            if id == queue
                && let Some(window) = window
            {
                store.history(seed).window = window;
            }
            self.messages.entities.next_store = self.messages.entities.next_store.max(id.0.saturating_add(1));
        }
    }
}

impl EntityAdmin<'_> {
    pub(crate) fn create_subscription(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: &str,
        settings: EntitySettings,
        rules: Vec<Rule>,
    ) -> Result<(), EntityError> {
        let mut names = std::collections::BTreeSet::new();
        for rule in &rules {
            RuleAdmin::of(self.messages).check_rule(rule, cx.now)?;
            if !names.insert(rule.name.to_ascii_lowercase()) {
                return Err(EntityError::RuleExists(rule.name.clone()));
            }
        }
        let topic = name::split_subscription(name)
            .and_then(|(topic, _)| self.messages.entities.names.get(&name::key(topic)).copied());
        RuleAdmin::of(self.messages).check_rule_count(topic, rules.len())?;
        let subscription = self.create_bare_entity(cx, name, EntityKind::Subscription, settings)?;
        for rule in rules {
            RuleAdmin::of(self.messages).keep_rule(cx, subscription, rule)?;
        }
        Ok(())
    }
}
