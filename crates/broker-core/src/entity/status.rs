//! Operations that the status of an entity permits (`docs/features/entity-status.md`).
//!
//! Invariant: no link stands open, and no request is done, for what the status of its entity forbids.

use super::settings::out_of_range;
use crate::{EntityError, EntityKind, EntityStatus};

/// Operation of a client on an entity. Peeking and settling count as receiving; cancelling a scheduled message counts
/// as sending.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Use {
    Send,
    Receive,
}

impl EntityStatus {
    pub(crate) const fn allows(self, what: Use) -> bool {
        match self {
            Self::Active => true,
            Self::Disabled => false,
            Self::SendDisabled => matches!(what, Use::Receive),
            Self::ReceiveDisabled => matches!(what, Use::Send),
        }
    }

    /// Refuses a status that has no meaning for a kind of entity: a topic has no receivers, a subscription no
    /// senders.
    pub(crate) fn check(self, kind: EntityKind) -> Result<(), EntityError> {
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
