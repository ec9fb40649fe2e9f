//! Partition keys of messages (`docs/features/partitions.md`).
//!
//! Invariant: the messages of one batch or of one transaction name one partition, or none of them is stored.

use std::borrow::Cow;

use crate::{
    Message, PartitionKeyError,
    store::{Entity, Store, session_id::session_key},
};

impl Message {
    /// Key that decides the partition of a message: its session id in any case, else its partition key, else, where duplicates are
    /// detected, its message-id.
    pub(crate) fn key(&self, or_id: bool) -> Option<Cow<'_, str>> {
        if let Some(session) = &self.session_id {
            return Some(session_key(session));
        }
        let key = self.partition_key.as_deref();
        key.or(self.message_id.as_deref().filter(|_| or_id)).map(Cow::Borrowed)
    }
}

/// Check of the keys of messages that arrive together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BatchScope {
    /// They only travelled together.
    Independent,
    /// They are one batch: they belong to one partition.
    Batch,
    /// They belong to a transaction: each has a key, the same one.
    Transaction,
}

impl BatchScope {
    /// Scope of the messages of one send.
    pub(crate) fn of(messages: &[Message]) -> Self {
        if messages.len() > 1 { Self::Batch } else { Self::Independent }
    }
}

/// Refuses messages whose keys do not say one partition, where the entity has some.
pub(crate) fn check_partition_keys(
    store: &Store,
    entity: &Entity,
    messages: &[Message],
    scope: BatchScope,
) -> Result<(), PartitionKeyError> {
    if entity.definition.partitions.is_none() {
        return Ok(());
    }
    let name = || entity.definition.name.clone();
    for message in messages {
        match (&message.session_id, &message.partition_key) {
            (Some(session), Some(key)) if session_key(session) != session_key(key) => {
                return Err(PartitionKeyError::NotTheSession(name()));
            }
            _ => {}
        }
    }
    let or_id = store.history.is_some() || scope == BatchScope::Transaction;
    let mut keys = messages.iter().map(|message| message.key(or_id));
    if scope == BatchScope::Transaction && keys.clone().any(|key| key.is_none()) {
        return Err(PartitionKeyError::Missing(name()));
    }
    let first = keys.next().flatten();
    if scope != BatchScope::Independent && keys.any(|key| key != first) {
        return Err(PartitionKeyError::SeveralKeys(name()));
    }
    Ok(())
}
