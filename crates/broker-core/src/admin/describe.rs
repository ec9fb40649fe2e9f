//! Telling a management client what there is.
//!
//! Invariant: looking changes nothing, and one answer shows a bounded number of entities.

use std::ops::Bound;

use super::snapshot::AdminSnapshot;
use crate::{
    Activity, EntityError, EntityKind, EntityPath, EntityQuery, EntityReport, EntityVersion, EntityView,
    LimitScope, QueueId,
    entity::{
        dynamic::is_dynamic_name,
        name::{self, is_service_bus_name},
    },
    store::activity::Traffic,
};

/// Most entities in one answer.
const SHOWN_MAX: u64 = 1_000;

impl AdminSnapshot<'_> {
    /// Entities that a query selects, in order of name.
    pub(crate) fn describe(self, query: &EntityQuery) -> Vec<EntityReport> {
        match query {
            EntityQuery::One { name } => {
                self.entity(name).map(|view| self.report(&view)).into_iter().collect()
            }
            EntityQuery::Kind { kind, names, start, top } => {
                let list = self.messages.entities.listed.of_kind(*kind, *names);
                self.page(list.into_iter().flat_map(|list| list.from(start)), *top)
            }
            EntityQuery::All { after, top } => {
                let behind = (Bound::Excluded(&**after), Bound::Unbounded);
                let named = self.messages.entities.names.range::<str, _>(behind);
                let administered = named.filter(|(name, _)| !is_dynamic_name(name));
                self.page(administered.map(|(_, queue)| *queue), *top)
            }
            EntityQuery::Subscriptions { topic, start, top } => {
                let topic = self.messages.entities.names.get(&name::key(topic)).copied();
                let list = topic.and_then(|topic| self.messages.entities.listed.of_topic(topic));
                self.page(list.into_iter().flat_map(|list| list.from(start)), *top)
            }
        }
    }

    /// Whether an entity is there, or, where that is asked for, one below its name, or one that would be made on
    /// demand.
    pub(crate) fn find_entity(
        self,
        path: &EntityPath,
        or_below: bool,
        auto_create: bool,
    ) -> Result<(), EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        if !is_service_bus_name(&path.entity) && !is_dynamic_name(&path.entity) {
            return Err(missing());
        }
        let could_be_made =
            || auto_create && self.messages.entities.check_name(&path.entity, EntityKind::Queue).is_ok();
        if self.messages.resolve(path).is_some()
            || could_be_made()
            || or_below && self.is_prefix(&path.entity)
        {
            return Ok(());
        }
        Err(missing())
    }

    /// Whether the name of an entity begins with this one and a slash.
    fn is_prefix(self, name: &str) -> bool {
        let prefix = format!("{}/", name::key(name));
        let behind = (Bound::Excluded(&*prefix), Bound::Unbounded);
        self.messages
            .entities
            .names
            .range::<str, _>(behind)
            .next()
            .is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    pub(crate) fn page(self, queues: impl Iterator<Item = QueueId>, top: u64) -> Vec<EntityReport> {
        let top = usize::try_from(top.min(SHOWN_MAX)).unwrap_or(usize::MAX);
        queues.take(top).filter_map(|queue| self.view(queue)).map(|view| self.report(&view)).collect()
    }

    pub(crate) fn activity(view: &EntityView<'_>) -> Activity {
        let Traffic { incoming, outgoing, completed, failed, late_completions, expired } = view.traffic;
        Activity {
            deferred: view.deferred,
            locked: view.locked,
            oldest: view.oldest,
            held_since: view.held_since,
            incoming,
            outgoing,
            completed,
            failed,
            late_completions,
            expired,
            dead_lettered: view.dead_lettered,
        }
    }

    pub(crate) fn report(self, view: &EntityView<'_>) -> EntityReport {
        let subscriptions = match view.kind {
            EntityKind::Topic => self.messages.entities.subscription_count(view.queue),
            EntityKind::Queue | EntityKind::Subscription => 0,
        };
        let (sql_filters, correlation_filters) = self.messages.rules.filters(view.queue);
        EntityReport {
            name: view.name.into(),
            kind: view.kind,
            settings: Box::new(view.settings.clone()),
            created_at: view.created_at,
            updated_at: view.updated_at,
            accessed_at: view.accessed_at,
            version: EntityVersion::new(view.queue, view.updated_at),
            active_and_deferred: view.active + view.deferred,
            scheduled: view.scheduled,
            dead_letter: view.dead_letter,
            transfer_dead_letter: view.transfer_dead_letter,
            bytes: view.bytes,
            max_message_bytes: self.messages.max_message_bytes(view.settings, LimitScope::Tier),
            subscriptions,
            activity: Self::activity(view),
            sql_filters: sql_filters as u64,
            correlation_filters: correlation_filters as u64,
        }
    }
}
