//! Which messages an entity takes.
//!
//! Invariant: what is refused here has changed nothing, and what is taken is stored whole: nothing fails behind it.

use super::{
    duplicates::new_ids,
    partition_keys::{BatchScope, check_partition_keys},
    send_size::SendSize,
};
use crate::{
    EntityKind, Message, Output, PublishError, QueueId, QuotaError,
    call::Cx,
    entity::status::Use,
    messages::Messages,
    store::{
        Entity, Store,
        session_id::{SESSION_ID_CHARS_MAX, check_session_id},
    },
};

/// Decides which messages an entity takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishChecks<'a> {
    pub(crate) messages: &'a Messages,
}

impl<'a> PublishChecks<'a> {
    pub(crate) fn of(messages: &'a Messages) -> Self {
        Self { messages }
    }
}

impl PublishChecks<'_> {
    /// Says of which kind the entity is that takes them.
    #[inline]
    pub(crate) fn check_publish(
        self,
        cx: &Cx<'_, impl Output>,
        queue: QueueId,
        messages: &[Message],
        scope: BatchScope,
    ) -> Result<EntityKind, PublishError> {
        let missing = || PublishError::NotFound(format!("queue {}", queue.0).into());
        let store = self.messages.store(queue).ok_or_else(missing)?;
        let Some(entity) = store.entity() else {
            let name = self.messages.main_of(queue).ok_or_else(missing)?.definition.name.clone();
            return Err(PublishError::SubQueueSend(name));
        };
        let kind = entity.definition.kind;
        if kind == EntityKind::Subscription {
            return Err(PublishError::SubscriptionSend(entity.definition.name.clone()));
        }
        if !entity.definition.settings.status.allows(Use::Send) {
            return Err(PublishError::Disabled(entity.definition.name.clone()));
        }
        if store.sessions.is_some() {
            check_sessions(entity, messages)?;
        }
        check_partition_keys(store, entity, messages, scope)?;
        self.check_room(queue, messages, cx.out)?;
        if kind == EntityKind::Topic {
            self.check_copies(queue, entity, messages.len() as u64)?;
        }
        SendSize::of(self.messages).check_amount(cx.now, queue, entity, messages, scope)?;
        self.check_history(cx, store, entity, messages)?;
        Ok(kind)
    }

    /// Refuses what is too large for an entity, or for which there is no room.
    pub(crate) fn check_room(
        self,
        queue: QueueId,
        messages: &[Message],
        out: &impl Output,
    ) -> Result<(), PublishError> {
        out.check_storage()?;
        let missing = || PublishError::NotFound(format!("queue {}", queue.0).into());
        let entity = self.messages.entity(queue).ok_or_else(missing)?;
        let settings = &entity.definition.settings;
        for message in messages {
            let (bytes, limit) =
                (message.payload.len() as u64, self.messages.max_message_bytes(settings, message.limits));
            if bytes > limit {
                let entity = entity.definition.name.clone();
                return Err(PublishError::TooLarge { entity, bytes, limit });
            }
        }
        let Some(limit) = settings.max_size_bytes else { return Ok(()) };
        let more = messages.iter().map(|message| message.payload.len() as u64).sum();
        Ok(self.check_size(queue, limit, more, 0)?)
    }

    /// Refuses `more` bytes that an entity of at most `limit` has no room for once it has lost `less`.
    pub(crate) fn check_size(
        self,
        queue: QueueId,
        limit: u64,
        more: u64,
        less: u64,
    ) -> Result<(), QuotaError> {
        let bytes = self.messages.entities.entity_bytes(queue);
        if bytes.saturating_sub(less).saturating_add(more) <= limit {
            return Ok(());
        }
        let entity =
            self.messages.main_of(queue).map(|entity| entity.definition.name.clone()).unwrap_or_default();
        Err(QuotaError::Entity { entity, bytes, limit })
    }

    /// All copies of one send are made in one call: there may be so many.
    fn check_copies(self, topic: QueueId, entity: &Entity, messages: u64) -> Result<(), PublishError> {
        let limit = self.messages.config.max_copies_per_send;
        let copies = messages.saturating_mul(self.messages.rules.count(topic) as u64);
        if copies > limit {
            let entity = entity.definition.name.clone();
            return Err(PublishError::TooManyCopies { entity, messages, copies, limit });
        }
        Ok(())
    }
}

/// Every message of an entity with sessions belongs to one.
fn check_sessions(entity: &Entity, messages: &[Message]) -> Result<(), PublishError> {
    for message in messages {
        let Some(session) = message.session_id.as_deref() else {
            return Err(PublishError::SessionRequired(entity.definition.name.clone()));
        };
        check_session_id(session).map_err(|chars| PublishError::SessionIdTooLong {
            chars: chars as u64,
            limit: SESSION_ID_CHARS_MAX as u64,
        })?;
    }
    Ok(())
}

impl PublishChecks<'_> {
    /// Refuses messages whose ids cannot all be remembered.
    pub(crate) fn check_history(
        self,
        cx: &Cx<'_, impl Output>,
        store: &Store,
        entity: &Entity,
        messages: &[Message],
    ) -> Result<(), PublishError> {
        if store.history.is_none() {
            return Ok(());
        }
        let limit = self.messages.config.max_history_ids;
        let kept = self.messages.history_len + self.open_ids(cx);
        let ids = messages.iter().filter(|message| message.message_id.is_some()).count() as u64;
        // Duplicates need no place. Their ids are looked for only where that decides.
        if kept + ids > limit && kept + new_ids(store, cx.now, messages) > limit {
            return Err(PublishError::HistoryFull { entity: entity.definition.name.clone(), limit });
        }
        Ok(())
    }

    /// Ids noted in this call.
    pub(crate) fn open_ids(self, cx: &Cx<'_, impl Output>) -> u64 {
        let history = |id: &QueueId| self.messages.store(*id).and_then(|store| store.history.as_ref());
        cx.dirty_histories.iter().filter_map(history).map(|history| history.open_ids() as u64).sum()
    }
}
