//! Roles of clients.
//!
//! Invariant: a client keeps its purpose for the life of its connection.

use crate::{
    model::{EntityIndex, Location},
    plan::SendTarget,
};

/// Role of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// Sends.
    Publish(SendTarget),
    /// Receives from an entity or its dead letters, and settles at random.
    Consume(EntityIndex, bool, Mode),
    /// Takes sessions of an entity.
    TakeSessions(EntityIndex),
    /// Sends to and receives from all entities, in transactions.
    Transact,
    /// The same with one entity, and with the first queue.
    TransactWith(EntityIndex),
    /// Schedules and cancels; where it can receive, it defers, and receives by number.
    Manage(SendTarget),
    /// Receives from an entity or its dead letters, and completes everything.
    Drain(EntityIndex, bool),
    /// Receives the messages of an entity that could not be forwarded, and completes them.
    Collect(Location, EntityIndex),
    /// Looks whether anything is left.
    PeekForwarder(SendTarget),
    /// Peeks at the dead letters of an entity, which are forwarded.
    PeekDeadLetters(EntityIndex),
}

/// Settle mode of a consumer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Settles first: `settled=true`.
    First,
    /// Lets the broker settle: `settled=false`, and waits for the answer.
    Second,
    /// Receive-and-delete.
    Delete,
}
