//! What happens to a message: entities, sequence numbers, locks, settlement, dead-lettering.
//!
//! Invariant: the outputs depend on the inputs alone. Commands, time and the lock-token key come in as
//! arguments; records and effects go out through [`Output`]. No socket, file, clock, thread or hash order.

mod command;
mod effect;
mod ids;
mod message;
mod output;

pub use command::{Batch, Command, EntityPath, Outcome, QueueSettings, ReceiveMode, SubQueue, UnsettledPolicy};
pub use effect::{AttachError, Delivery, Effect, EntityError, Lock, Peeked, PublishError, QueueInfo, Renewed, SettleError, Stored};
pub use ids::{ClientId, LinkId, LockId, LockToken, Position, QueueId, SequenceNumber, Ticket, Timestamp};
pub use message::{Message, PropertyValue, Properties};
pub use output::{Output, StorageError, StoredRecord};
