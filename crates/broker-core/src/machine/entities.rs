//! Queues come and go.
//!
//! Invariant: a store number is not used twice in one process, so a late command cannot hit the wrong queue.

use std::time::Duration;

use super::Core;
use crate::{
    ClientId, Effect, EntityError, EntityPath, Output, Position, QueueId, QueueInfo, QueueSettings, SubQueue,
    Ticket,
    client::Link,
    name,
    record::{Definition, encode_deleted},
    store::{Entity, Role, Store},
};

const LOCK_DURATION_MAX: Duration = Duration::from_secs(300);

impl Core {
    /// The store of a path.
    pub(super) fn resolve(&self, path: &EntityPath) -> Option<QueueId> {
        let main = *self.names.get(&name::key(&path.entity))?;
        match path.sub_queue {
            SubQueue::Main => Some(main),
            SubQueue::DeadLetter => Some(self.stores.get(&main)?.entity()?.definition.dead_letter),
        }
    }

    /// The store of a path, made with defaults if it is missing and that is wanted.
    pub(super) fn resolve_or_create(
        &mut self,
        path: &EntityPath,
        auto_create: bool,
        out: &mut impl Output,
    ) -> Result<QueueId, EntityError> {
        if let Some(id) = self.resolve(path) {
            return Ok(id);
        }
        if !auto_create {
            return Err(EntityError::NotFound(path.entity.clone()));
        }
        self.create_queue(&path.entity, self.config.auto_create.clone(), out)?;
        self.resolve(path).ok_or_else(|| EntityError::NotFound(path.entity.clone()))
    }

    /// The entity that a store belongs to.
    pub(super) fn main_of(&self, id: QueueId) -> Option<&Entity> {
        let store = self.stores.get(&id)?;
        match &store.role {
            Role::Main(entity) => Some(entity),
            Role::DeadLetter { of } => self.stores.get(of)?.entity(),
            Role::Unknown => None,
        }
    }

    /// What a link needs to know.
    pub(super) fn info(&self, id: QueueId) -> Option<QueueInfo> {
        let definition = &self.main_of(id)?.definition;
        let max_message_bytes = self.max_message_bytes(&definition.settings);
        Some(QueueInfo { queue: id, name: definition.name.clone(), max_message_bytes })
    }

    /// The smaller of the queue's and the broker's limit.
    pub(super) fn max_message_bytes(&self, settings: &QueueSettings) -> u64 {
        settings
            .max_message_bytes
            .map_or(self.config.max_message_bytes, |own| own.min(self.config.max_message_bytes))
    }

    pub(super) fn create_queue_for(
        &mut self,
        client: ClientId,
        name: &str,
        settings: QueueSettings,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self.create_queue(name, settings, out) {
            Ok(_) => Effect::EntityDone { ticket },
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    fn create_queue(
        &mut self,
        name: &str,
        settings: QueueSettings,
        out: &mut impl Output,
    ) -> Result<QueueId, EntityError> {
        if !name::is_valid(name) {
            return Err(EntityError::InvalidName(name.into()));
        }
        if self.names.contains_key(&name::key(name)) {
            return Err(EntityError::AlreadyExists(name.into()));
        }
        let settings = check(settings)?;
        let limit = self.config.max_queues;
        if self.names.len() as u64 >= limit {
            return Err(EntityError::LimitReached { what: "queues", limit });
        }
        self.define(name.into(), settings, out)
    }

    /// Makes the two stores of a queue and records them.
    fn define(
        &mut self,
        name: Box<str>,
        settings: QueueSettings,
        out: &mut impl Output,
    ) -> Result<QueueId, EntityError> {
        let all = EntityError::LimitReached { what: "queue numbers", limit: u64::from(u32::MAX) };
        let queue = QueueId(self.next_store);
        let dead_letter = QueueId(self.next_store.checked_add(1).ok_or_else(|| all.clone())?);
        self.next_store = dead_letter.0.checked_add(1).ok_or(all)?;
        let definition = Definition { queue, dead_letter, name, settings, next_sequence: 1 };
        self.adopt(definition, out);
        Ok(queue)
    }

    /// Records a definition and makes its stores, or gives existing ones their role.
    pub(super) fn adopt(&mut self, definition: Definition, out: &mut impl Output) {
        let (position, length) = out.record(&definition.encode(), &[]);
        self.names.insert(name::key(&definition.name), definition.queue);
        self.place(definition, position, length);
    }

    /// Gives the stores of a definition their role; makes them if they are missing.
    pub(super) fn place(&mut self, definition: Definition, position: Position, length: u32) {
        let (queue, dead_letter) = (definition.queue, definition.dead_letter);
        let lock_duration = definition.settings.lock_duration;
        let entity = Entity { definition, position, length };
        for (id, role) in
            [(queue, Role::Main(Box::new(entity))), (dead_letter, Role::DeadLetter { of: queue })]
        {
            let store = self
                .stores
                .entry(id)
                .or_insert_with(|| Box::new(Store::new(id, Role::Unknown, lock_duration)));
            store.role = role;
            store.lock_duration = lock_duration;
            self.next_store = self.next_store.max(id.0.saturating_add(1));
        }
    }

    pub(super) fn delete_queue(
        &mut self,
        client: ClientId,
        name: &str,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        // Removals of its messages must not come after its own.
        self.merge.flush(out);
        let Some(queue) = self.names.remove(&name::key(name)) else {
            let error = EntityError::NotFound(name.into());
            return self.merge.effect(client, Effect::RequestRefused { ticket, error }, out);
        };
        if let Some(store) = self.stores.remove(&queue) {
            if let Role::Main(entity) = &store.role {
                let dead_letter = entity.definition.dead_letter;
                let (position, length) = out.record(&encode_deleted(queue, dead_letter), &[]);
                // Like a removal, it outlives all that it speaks of.
                out.release(position, length);
                out.release(entity.position, entity.length);
                if let Some(store) = self.stores.remove(&dead_letter) {
                    self.dismantle(*store, out);
                }
            }
            self.dismantle(*store, out);
        }
        self.merge.effect(client, Effect::EntityDone { ticket }, out);
    }

    /// Releases what a store held, and tells its links.
    fn dismantle(&mut self, mut store: Store, out: &mut impl Output) {
        store.disarm(&mut self.timers);
        for (_, slot) in store.slots.iter() {
            out.release(slot.position, slot.length);
        }
        for (client, link) in &store.links {
            if let Some(client) = self.clients.get_mut(client)
                && let Some(Link::Consumer { number }) = client.links.remove(link)
            {
                self.consumers.remove(&number);
                client.blocked.retain(|blocked| *blocked != number);
            }
            self.merge.effect(*client, Effect::EntityDeleted { link: *link }, out);
        }
    }
}

/// Refuses what is out of range; cuts durations to what a record keeps.
fn check(mut settings: QueueSettings) -> Result<QueueSettings, EntityError> {
    let out_of_range = |property, value: String, allowed| {
        Err(EntityError::OutOfRange { property, value: value.into(), allowed })
    };
    let lock = settings.lock_duration;
    if lock < Duration::from_millis(1) || lock > LOCK_DURATION_MAX {
        return out_of_range("LockDuration", format!("{lock:?}"), "1 ms to 5 minutes");
    }
    let deliveries = settings.max_delivery_count;
    if deliveries == 0 || i32::try_from(deliveries).is_err() {
        return out_of_range("MaxDeliveryCount", deliveries.to_string(), "1 to 2147483647");
    }
    if settings.max_message_bytes == Some(0) {
        return out_of_range("MaxMessageSizeInKilobytes", "0 bytes".into(), "at least 1 byte");
    }
    if settings.max_size_bytes == Some(0) {
        return out_of_range("MaxSizeInMegabytes", "0 bytes".into(), "at least 1 byte");
    }
    settings.lock_duration = whole_millis(lock);
    settings.default_time_to_live = settings.default_time_to_live.map(whole_millis);
    Ok(settings)
}

fn whole_millis(duration: Duration) -> Duration {
    // One less than the largest number, which stands for `None` in a record.
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(u64::MAX - 1))
}
