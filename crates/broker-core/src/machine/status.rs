//! What an entity's status allows (`service-bus-entities` 14).
//!
//! Invariant: no link stands open, and no request is done, for what the status of its entity forbids.

use super::Core;
use crate::{
    AttachError, Effect, EntityError, EntityKind, EntityStatus, Output, QueueId, Timestamp, client::Link,
    entity::out_of_range,
};

/// What a client does with an entity. Looking at messages and settling them is receiving; taking back what was
/// scheduled is sending.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    Send,
    Receive,
}

impl EntityStatus {
    pub(super) const fn allows(self, what: Use) -> bool {
        match self {
            Self::Active => true,
            Self::Disabled => false,
            Self::SendDisabled => matches!(what, Use::Receive),
            Self::ReceiveDisabled => matches!(what, Use::Send),
        }
    }

    /// Refuses a status that means nothing for a kind of entity: nobody receives from a topic, nor sends to a
    /// subscription.
    pub(super) fn check(self, kind: EntityKind) -> Result<(), EntityError> {
        match (kind, self) {
            (EntityKind::Topic, Self::ReceiveDisabled) => {
                out_of_range("Status", "ReceiveDisabled".into(), "Active, Disabled and SendDisabled")
            }
            (EntityKind::Subscription, Self::SendDisabled) => {
                out_of_range("Status", "SendDisabled".into(), "Active, Disabled and ReceiveDisabled")
            }
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Refuses a request that the status of a store's entity forbids.
    pub(super) fn check_use(&self, queue: QueueId, what: Use) -> Result<(), EntityError> {
        match self.main_of(queue) {
            Some(entity) if !entity.definition.settings.status.allows(what) => {
                Err(EntityError::Disabled(entity.definition.name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Closes the links that the status of an entity forbids, and tells them.
    pub(super) fn close_forbidden(&mut self, now: Timestamp, queue: QueueId, out: &mut impl Output) {
        let Some(entity) = self.main_of(queue) else { return };
        let (stores, status) = (entity.definition.stores, entity.definition.settings.status);
        let mut forbidden = Vec::new();
        for id in stores.all() {
            let links = self.stores.get(&id).into_iter().flat_map(|store| &store.links);
            forbidden.extend(links.filter(|(client, link)| {
                let made = self.clients.get(client).and_then(|client| client.links.get(link));
                made.is_some_and(|made| match made {
                    Link::Producer { .. } => !status.allows(Use::Send),
                    Link::Consumer { .. } | Link::Acceptor { .. } => !status.allows(Use::Receive),
                })
            }));
        }
        for (client, link) in forbidden {
            let made = self.clients.get(&client).and_then(|client| client.links.get(&link));
            let effect = if let (Some(Link::Acceptor { .. }), Some(entity)) = (made, self.main_of(queue)) {
                // It never was open.
                let error = AttachError::Disabled(entity.definition.name.clone());
                Effect::AttachRefused { link, error }
            } else {
                Effect::EntityDisabled { link }
            };
            self.close_link(now, client, link, out);
            self.merge.effect(client, effect, out);
        }
    }
}
