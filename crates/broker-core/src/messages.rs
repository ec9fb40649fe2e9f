//! The messages of one namespace, and what decides about them: configuration, entities and rules.
//!
//! Invariant: nothing here knows a link, or a client but for the number of one whose command waits for a read.

use crate::{
    CoreConfig, EntityPath, EntitySettings, LimitScope, Output, QueueId, QueueInfo,
    call::Cx,
    disk_waits::DiskWaits,
    entity::{rules::Rules, table::EntityTable},
    settle::token::LockTokenCipher,
    store::{Entity, Store},
};

/// The messages of one namespace.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) config: CoreConfig,
    pub(crate) tokens: LockTokenCipher,
    pub(crate) entities: EntityTable,
    pub(crate) rules: Rules,
    /// Message ids in all recorded histories.
    pub(crate) history_len: u64,
    /// All that waits for reads of the disk.
    pub(crate) disk_waits: DiskWaits,
}

impl Messages {
    /// A message store.
    #[inline]
    pub(crate) fn store(&self, id: QueueId) -> Option<&Store> {
        self.entities.stores.get(&id).map(|store| &**store)
    }

    /// A message store, to change it.
    #[inline]
    pub(crate) fn store_mut(&mut self, id: QueueId) -> Option<&mut Store> {
        self.entities.stores.get_mut(&id).map(|store| &mut **store)
    }

    /// The entity of a main store.
    #[inline]
    pub(crate) fn entity(&self, id: QueueId) -> Option<&Entity> {
        self.store(id)?.entity()
    }

    /// The entity that a store belongs to.
    pub(crate) fn main_of(&self, id: QueueId) -> Option<&Entity> {
        self.entities.main_of(id)
    }

    /// The store of a path.
    pub(crate) fn resolve(&self, path: &EntityPath) -> Option<QueueId> {
        self.entities.resolve(path)
    }

    pub(crate) fn new(config: CoreConfig) -> Self {
        let tokens = LockTokenCipher::new(config.token_key);
        let (entities, rules) = (EntityTable::default(), Rules::default());
        Self { config, tokens, entities, rules, history_len: 0, disk_waits: DiskWaits::default() }
    }
}

impl Messages {
    /// Records what the histories of the call have noted.
    #[inline]
    pub(crate) fn record_histories(&mut self, cx: &mut Cx<'_, impl Output>) {
        for queue in std::mem::take(&mut cx.dirty_histories) {
            let Some(store) = self.entities.stores.get_mut(&queue) else { continue };
            let Some(history) = &mut store.history else { continue };
            self.history_len += history.open_ids() as u64;
            history.record(queue, cx.out);
            self.entities.agenda.arm(store);
        }
    }

    /// Forgets ids whose window has passed, at most about `left`; says how much of that is left.
    pub(crate) fn forget_ids(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId, left: u32) -> u32 {
        let history = self.entities.stores.get_mut(&queue).and_then(|store| store.history.as_mut());
        let Some(history) = history.filter(|history| history.forget_at().is_some_and(|at| at <= cx.now))
        else {
            return left;
        };
        let forgotten = history.forget(queue, cx.now, left, cx.out);
        self.history_len -= u64::from(forgotten);
        left.saturating_sub(forgotten)
    }

    /// Facts about the entity that its links need.
    pub(crate) fn info(&self, id: QueueId) -> Option<QueueInfo> {
        let definition = &self.entities.main_of(id)?.definition;
        let largest = |limits| self.max_message_bytes(&definition.settings, limits);
        Some(QueueInfo {
            queue: id,
            kind: definition.kind,
            name: definition.name.clone(),
            max_message_bytes: largest(LimitScope::Broker),
            tier_message_bytes: largest(LimitScope::Tier),
            detects_duplicates: definition.settings.requires_duplicate_detection,
            partitioned: definition.settings.enable_partitioning,
        })
    }

    /// Largest message that an entity takes from a sender with these limits: its own limit, or the one of the tier or the broker
    /// where it has none. Never more than the broker's.
    pub(crate) fn max_message_bytes(&self, settings: &EntitySettings, limits: LimitScope) -> u64 {
        let default = match limits {
            LimitScope::Broker => self.config.max_message_bytes,
            LimitScope::Tier => self.config.tier_message_bytes,
        };
        settings.max_message_bytes.unwrap_or(default).min(self.config.max_message_bytes)
    }
}
