//! The entities of one namespace: their names, and their message stores.
//!
//! Invariant: a store number is not used twice in one process, so a late command cannot hit the wrong entity. Each name
//! leads to a main store, and each main store belongs to one name.

use std::collections::BTreeMap;

use super::{
    agenda::Agenda, auto_delete::Idle, dynamic::DynamicNodes, index::EntityIndex, name, status::Use,
};
use crate::{
    AuthorizationRule, ClientId, Effect, EntityError, EntityKind, EntityPath, EntitySettings, Output,
    PageStart, QueueId, SubQueue, Timestamp,
    call::Cx,
    id_map::IdMap,
    record::{Definition, Stores},
    store::{Entity, Role, Store},
};

/// The entities of one namespace.
#[derive(Debug)]
pub(crate) struct EntityTable {
    /// Key of the name → main store.
    pub(crate) names: BTreeMap<Box<str>, QueueId>,
    pub(crate) listed: EntityIndex,
    pub(crate) stores: IdMap<QueueId, Box<Store>>,
    pub(crate) agenda: Agenda,
    /// The time of the next idle check of each entity with `AutoDeleteOnIdle`.
    pub(crate) idle: Idle,
    pub(crate) dynamic: DynamicNodes,
    /// The client that gets `Effect::KeysChanged`.
    pub(crate) keys_watcher: Option<ClientId>,
    pub(crate) next_store: u32,
}

impl Default for EntityTable {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            listed: EntityIndex::default(),
            stores: IdMap::default(),
            agenda: Agenda::default(),
            idle: Idle::default(),
            dynamic: DynamicNodes::default(),
            keys_watcher: None,
            next_store: 1,
        }
    }
}

impl EntityTable {
    /// When an entity was last accessed, as far as is known; zero for never.
    pub(crate) fn accessed_at(&self, definition: &Definition) -> Timestamp {
        let stores = definition.stores.all();
        let touched = stores.iter().filter_map(|id| Some(self.stores.get(id)?.touched_at));
        touched.fold(definition.accessed_at, Timestamp::max)
    }

    pub(crate) fn settings_of(&self, main: QueueId) -> Option<&EntitySettings> {
        Some(&self.stores.get(&main)?.entity()?.definition.settings)
    }

    pub(crate) fn has_sessions(&self, path: &EntityPath) -> bool {
        let store = self.resolve(path).and_then(|queue| self.stores.get(&queue));
        store.is_some_and(|store| store.sessions.is_some())
    }

    /// The main stores of a topic's subscriptions, in order of name.
    pub(crate) fn subscriptions_of(&self, topic: QueueId) -> impl Iterator<Item = QueueId> {
        self.listed.of_topic(topic).into_iter().flat_map(|list| list.from(&PageStart::Skip(0)))
    }

    /// Number of subscriptions of a topic.
    pub(crate) fn subscription_count(&self, topic: QueueId) -> u64 {
        self.listed.of_topic(topic).map_or(0, |list| list.len() as u64)
    }

    /// The store of a path.
    pub(crate) fn resolve(&self, path: &EntityPath) -> Option<QueueId> {
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

    /// The entity that a store belongs to.
    pub(crate) fn main_of(&self, id: QueueId) -> Option<&Entity> {
        let store = self.stores.get(&id)?;
        match &store.role {
            Role::Main(entity) => Some(entity),
            Role::DeadLetter { of } | Role::TransferDeadLetter { of } => self.stores.get(of)?.entity(),
            Role::Unknown => None,
        }
    }

    /// A subscription has partitions where its topic has some.
    pub(crate) fn topic_has_partitions(&self, topic: Option<QueueId>) -> bool {
        let topic = topic.and_then(|topic| self.stores.get(&topic)?.entity());
        topic.is_some_and(|topic| topic.definition.settings.enable_partitioning)
    }

    /// The name as it will be kept, and the store of a subscription's topic.
    pub(crate) fn check_name(
        &self,
        name: &str,
        kind: EntityKind,
    ) -> Result<(Box<str>, Option<QueueId>), EntityError> {
        let invalid = || EntityError::InvalidName(name.into());
        if kind != EntityKind::Subscription {
            return name::check_name(name).map(|()| (name.into(), None)).map_err(|_| invalid());
        }
        let (topic, own) = name::split_subscription(name).ok_or_else(invalid)?;
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
    pub(crate) fn next_stores(&mut self) -> Result<Stores, EntityError> {
        let all = EntityError::LimitReached { what: "store numbers", limit: u64::from(u32::MAX) };
        let first = self.next_store;
        self.next_store = first.checked_add(3).ok_or(all)?;
        Ok(Stores {
            queue: QueueId(first),
            dead_letter: QueueId(first + 1),
            transfer_dead_letter: QueueId(first + 2),
        })
    }

    /// The keys of an entity are others than before.
    pub(crate) fn tell_keys(&self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let Some(definition) = self.main_of(queue).map(|entity| &entity.definition) else { return };
        let (entity, rules) = (definition.name.clone(), definition.settings.authorization.clone());
        self.tell_watcher(cx, entity, rules);
    }

    /// An entity that had keys was deleted.
    pub(crate) fn tell_keys_gone(&self, cx: &mut Cx<'_, impl Output>, entity: Box<str>) {
        self.tell_watcher(cx, entity, Vec::new());
    }

    fn tell_watcher(&self, cx: &mut Cx<'_, impl Output>, entity: Box<str>, rules: Vec<AuthorizationRule>) {
        if let Some(client) = self.keys_watcher {
            cx.tell(client, Effect::KeysChanged { entity, rules });
        }
    }

    pub(crate) fn kind_of(&self, queue: QueueId) -> Option<EntityKind> {
        Some(self.main_of(queue)?.definition.kind)
    }

    pub(crate) fn rewrite_definition(&mut self, queue: QueueId, out: &mut impl Output) {
        let accessed_at = self.main_of(queue).map(|entity| self.accessed_at(&entity.definition));
        let Some(store) = self.stores.get_mut(&queue) else { return };
        let Role::Main(entity) = &mut store.role else { return };
        entity.definition.accessed_at = accessed_at.unwrap_or_default();
        out.release(entity.position, entity.length);
        (entity.position, entity.length) = out.record(&entity.definition.encode(), &[]);
    }

    /// The topic and the subscription of a path.
    pub(crate) fn subscription(&self, path: &EntityPath) -> Result<(QueueId, QueueId), EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        let id = *self.names.get(&name::key(&path.entity)).ok_or_else(missing)?;
        let definition = &self.main_of(id).ok_or_else(missing)?.definition;
        let topic = definition.topic.ok_or_else(|| EntityError::NotASubscription(path.entity.clone()))?;
        Ok((topic, id))
    }

    /// Refuses a request that the status of a store's entity forbids.
    pub(crate) fn check_use(&self, queue: QueueId, what: Use) -> Result<(), EntityError> {
        match self.main_of(queue) {
            Some(entity) if !entity.definition.settings.status.allows(what) => {
                Err(EntityError::Disabled(entity.definition.name.clone()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn is_topic(&self, name: &str) -> bool {
        let id = self.names.get(&name::key(name));
        id.is_some_and(|id| self.kind_of(*id) == Some(EntityKind::Topic))
    }

    /// The subscription of that name of its own, of whichever topic. Looks at all names.
    pub(crate) fn find_subscription(&self, own: &str) -> Option<QueueId> {
        let mut names = self.names.iter();
        let is_it = |name: &str| name::split_subscription(name).is_some_and(|(_, found)| found == own);
        names.find(|(name, _)| name.ends_with(own) && is_it(name)).map(|(_, id)| *id)
    }

    /// Number of subscriptions of a topic that were created for subscribers.
    pub(crate) fn subscribers_of(&self, topic: &str) -> u64 {
        let from = format!("{}{}", name::subscriptions_key(topic), name::OWN_PREFIX).into_boxed_str();
        let names = self.names.range(from.clone()..);
        names.take_while(|(name, _)| name.starts_with(&*from)).count() as u64
    }

    /// Refuses to forward where that is not possible. What forwards is never idle.
    /// An entity may forward to itself, and one with sessions may forward: the service takes both, as the live tests of the
    /// SDK for Python show. The first is a circle of one, which ends as all circles do; forwarded messages keep their
    /// session ids.
    pub(crate) fn check_forwards(
        &self,
        own_name: &str,
        kind: EntityKind,
        settings: &mut EntitySettings,
    ) -> Result<(), EntityError> {
        let targets = [
            ("ForwardTo", &settings.forward_to),
            ("ForwardDeadLetteredMessagesTo", &settings.forward_dead_lettered_to),
        ];
        for (property, target) in targets {
            let Some(target) = target else { continue };
            let refuse = |why| Err(EntityError::ForwardTarget { property, target: target.clone(), why });
            let key = name::key(target);
            if kind == EntityKind::Topic {
                return refuse("only queues and subscriptions forward");
            }
            if key == name::key(own_name) && kind == EntityKind::Queue {
                continue;
            }
            match self.names.get(&key).and_then(|id| self.main_of(*id)).map(|entity| entity.definition.kind) {
                None => {
                    return Err(EntityError::ForwardTargetMissing { property, target: target.clone() });
                }
                Some(EntityKind::Subscription) => {
                    return refuse("a subscription takes messages from its topic only");
                }
                Some(EntityKind::Queue | EntityKind::Topic) => {}
            }
        }
        settings.end_idle_time_of(kind);
        Ok(())
    }
}
