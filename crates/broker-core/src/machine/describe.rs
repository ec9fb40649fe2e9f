//! Telling a management client what there is.
//!
//! Invariant: looking changes nothing, and one answer shows a bounded number of entities.

use std::ops::Bound;

use super::Core;
use crate::{
    Activity, EntityKind, EntityReport, Look, QueueId, activity::Traffic, machine::EntityView, name,
    store::Entity,
};

/// Most entities in one answer.
const SHOWN_MAX: u64 = 1_000;

impl Core {
    /// What a request asks to see, in order of name.
    pub(super) fn describe(&self, look: &Look) -> Vec<EntityReport> {
        match look {
            Look::One { name } => self.entity(name).map(|view| self.report(&view)).into_iter().collect(),
            Look::Kind { kind, skip, top } => {
                let is_of_kind = |entity: &Entity| entity.definition.kind == *kind;
                let queues = self.names.values().copied();
                self.page(queues.filter(|queue| self.main_of(*queue).is_some_and(is_of_kind)), *skip, *top)
            }
            Look::All { after, top } => {
                let behind = (Bound::Excluded(&**after), Bound::Unbounded);
                self.page(self.names.range::<str, _>(behind).map(|(_, queue)| *queue), 0, *top)
            }
            Look::Subscriptions { topic, skip, top } => {
                let topic = self.names.get(&name::key(topic)).copied();
                let queues = topic.into_iter().flat_map(|topic| self.subscriptions_of(topic));
                self.page(queues, *skip, *top)
            }
        }
    }

    /// What is passed over is only counted: to look at an entity costs more than to find it.
    fn page(&self, queues: impl Iterator<Item = QueueId>, skip: u64, top: u64) -> Vec<EntityReport> {
        let place = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let page = queues.skip(place(skip)).take(place(top.min(SHOWN_MAX)));
        page.filter_map(|queue| self.view(queue)).map(|view| self.report(&view)).collect()
    }

    /// The main stores of a topic's subscriptions, in order of name. Other entities may have names below the topic's.
    pub(super) fn subscriptions_of(&self, topic: QueueId) -> impl Iterator<Item = QueueId> {
        let prefix = self.main_of(topic).map(|entity| name::subscriptions_key(&entity.definition.name));
        let prefix = prefix.unwrap_or_default();
        let is_of_topic = move |id: &QueueId| {
            self.main_of(*id).is_some_and(|entity| entity.definition.topic == Some(topic))
        };
        let keys = self.names.range(Box::from(prefix.as_str())..);
        keys.take_while(move |(key, _)| key.starts_with(&prefix)).map(|(_, id)| *id).filter(is_of_topic)
    }

    fn activity(&self, view: &EntityView<'_>) -> Activity {
        let traffic = |queue: QueueId| self.stores.get(&queue).map(|store| store.traffic).unwrap_or_default();
        let Traffic { incoming, outgoing, completed, failed, expired } = traffic(view.queue);
        Activity {
            deferred: view.deferred,
            locked: view.locked,
            oldest: view.oldest,
            incoming,
            outgoing,
            completed,
            failed,
            expired,
            dead_lettered: traffic(view.dead_letter_queue).incoming,
        }
    }

    fn report(&self, view: &EntityView<'_>) -> EntityReport {
        let subscriptions = match view.kind {
            EntityKind::Topic => self.subscriptions_of(view.queue).count() as u64,
            EntityKind::Queue | EntityKind::Subscription => 0,
        };
        let (sql_filters, correlation_filters) = self.rules.filters(view.queue);
        EntityReport {
            name: view.name.into(),
            kind: view.kind,
            settings: Box::new(view.settings.clone()),
            created_at: view.created_at,
            updated_at: view.updated_at,
            active: view.active + view.deferred,
            scheduled: view.scheduled,
            dead_letter: view.dead_letter,
            transfer_dead_letter: view.transfer_dead_letter,
            bytes: view.bytes,
            max_message_bytes: self.max_message_bytes(view.settings),
            subscriptions,
            activity: self.activity(view),
            sql_filters: sql_filters as u64,
            correlation_filters: correlation_filters as u64,
        }
    }
}
