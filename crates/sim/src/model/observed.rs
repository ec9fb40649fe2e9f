//! Names of the model, and deliveries as clients observe them.
//!
//! Invariant: an observation holds only facts that a client can see.

use std::fmt::Debug;

use super::incarnation::Incarnations;

/// A message's name in the model; it travels in the body.
pub(crate) type Id = u64;
/// Index of an entity from which messages are received.
pub(crate) type EntityIndex = usize;
/// A copy of a message, at one of its entities.
pub(crate) type CopyId = (Id, EntityIndex);
/// Names a send group.
pub(crate) type SendGroupId = u64;
/// Names a session of an entity.
pub(crate) type Session = u64;

/// Location of a message relative to the entity that it was sent to.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Location {
    /// There, or among its dead letters.
    #[default]
    Home,
    /// Among the dead letters of the queue that should have forwarded it.
    FailedForward(usize),
    /// At the entity to which its dead letters are forwarded.
    DeadLetterTarget(EntityIndex),
    /// Among its transfer dead letters: there was no entity to forward to.
    Transfer,
}

impl Location {
    /// Scope of sequence numbers: two messages of one scope never share one.
    pub(super) fn numbers(self, entity: EntityIndex) -> (Self, EntityIndex) {
        match self {
            Self::Home | Self::Transfer => (Self::Home, entity),
            Self::FailedForward(_) => (self, entity),
            Self::DeadLetterTarget(dead_letter_target) => (Self::Home, dead_letter_target),
        }
    }
}

/// A delivery as a client saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedDelivery {
    pub(crate) id: Id,
    pub(crate) entity: EntityIndex,
    pub(crate) location: Location,
    /// Incarnation of the entity that the client has found.
    pub(crate) incarnations: Incarnations,
    pub(crate) dead_letter: bool,
    /// It was not the link's turn: it was asked for by number.
    pub(crate) by_number: bool,
    /// It is said to be dead because its time was over.
    pub(crate) expired: bool,
    /// Time of acceptance by the broker, in milliseconds.
    pub(crate) enqueued: u64,
    /// Time of delivery by the broker, if it is known, in milliseconds.
    pub(crate) handed_out: Option<u64>,
    pub(crate) session: Option<Session>,
    pub(crate) sequence: u64,
    /// Its first number, where that is told.
    pub(crate) origin: Option<u64>,
    pub(crate) delivery_count: u32,
    /// End of the lock in milliseconds; `None`: handed out settled.
    pub(crate) locked_until: Option<u64>,
    /// Number of the receiving link of its connection.
    pub(crate) holder: u64,
    pub(crate) now: u64,
}

impl ObservedDelivery {
    pub(super) fn copy(&self) -> CopyId {
        (self.id, self.entity)
    }
}

/// Settlement of a message by the client that holds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SettlementKind {
    /// It shall go away.
    Complete,
    /// It shall leave its order for the dead letters.
    DeadLetter,
    /// It shall wait until it is asked for by number.
    Defer,
    /// It shall come again.
    Return,
}

/// A promise was broken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{id}: {promise} ({detail})")]
pub(crate) struct Broken {
    /// The message, transaction or session.
    pub(crate) id: u64,
    pub(crate) promise: &'static str,
    pub(crate) detail: String,
}

/// The promise that was broken to `id`, with the facts that show it.
pub(crate) fn broken<T>(id: u64, promise: &'static str, detail: &impl Debug) -> Result<T, Broken> {
    Err(Broken { id, promise, detail: format!("{detail:?}") })
}
