//! The kind of node that a client of plain AMQP asks for, as JMS clients do by capabilities of source and target.
//!
//! Invariant: a client that asked for one kind never gets a link to a node of another.

use std::fmt;

use crate::EntityKind;

/// Kind of node that a client asked for.
///
/// [`Command::OfKind`](crate::Command::OfKind) opens a link or publishes by name, and has one of these. Where there is
/// an entity of another kind, its answer is `Effect::AttachRefused` or `Effect::PublishRefused` with `WrongKind`. What
/// it creates is of this kind. A subscription and the sub-queues of any entity fit every kind that is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeKind {
    Queue,
    Topic,
    /// A queue that is deleted after five minutes without use.
    TemporaryQueue,
    /// A topic that is deleted likewise.
    TemporaryTopic,
}

impl NodeKind {
    /// The kind of the entity that is created.
    pub const fn entity(self) -> EntityKind {
        match self {
            Self::Queue | Self::TemporaryQueue => EntityKind::Queue,
            Self::Topic | Self::TemporaryTopic => EntityKind::Topic,
        }
    }

    pub(crate) const fn is_temporary(self) -> bool {
        matches!(self, Self::TemporaryQueue | Self::TemporaryTopic)
    }

    /// Whether an entity of this kind is what was asked for.
    pub(crate) fn is_met_by(self, kind: EntityKind) -> bool {
        kind == EntityKind::Subscription || kind == self.entity()
    }
}

/// `a queue` or `a topic`.
impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.entity() == EntityKind::Topic { "a topic" } else { "a queue" })
    }
}
