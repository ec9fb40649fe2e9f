//! The entity through which the transactions of a session go.
//!
//! With cross-entity transactions an SDK of Service Bus attaches all links on the session of its coordinator. The first
//! entity is the one through which the cloud does all work of the session, so it refuses a receiver of another one
//! there (live test `CrossEntityTransactionSendsFirst` of Azure.Messaging.ServiceBus).
//!
//! Invariant: a session without a declaration has no such rule.

use broker_core::EntityPath;

use crate::condition::Refusal;

/// First entity of a session, and whether its transactions are kept to it.
#[derive(Debug, Default)]
pub(crate) struct ViaEntity {
    /// In lower case; the topic, for a subscription.
    first: Option<Box<str>>,
    has_declared: bool,
}

impl ViaEntity {
    /// The peer declares a transaction on the session.
    pub(crate) fn on_declare(&mut self) {
        self.has_declared = true;
    }

    /// A link to an entity is attached.
    pub(crate) fn on_attached(&mut self, path: &EntityPath) {
        self.first.get_or_insert_with(|| root(&path.entity));
    }

    /// Whether the session may receive from an entity.
    pub(crate) fn check_receiver(&self, path: &EntityPath) -> Result<(), Refusal> {
        match &self.first {
            Some(first) if self.has_declared && *first != root(&path.entity) => {
                Err(Refusal::NotViaEntity { first: first.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The entity that a transaction counts as one: the topic, for a subscription.
pub(super) fn root(entity: &str) -> Box<str> {
    let mut entity = entity.to_ascii_lowercase();
    if let Some(end) = entity.find("/subscriptions/") {
        entity.truncate(end);
    }
    entity.into()
}
