//! What happens to a message: entities, sequence numbers, locks, settlement, dead-lettering.
//!
//! Invariant: the outputs depend on the inputs alone. Commands, time and the lock-token key come in as
//! arguments; records and effects go out through [`Output`]. No socket, file, clock, thread or hash order.

mod activity;
mod authorization;
mod client;
mod command;
mod config;
mod deadlines;
mod effect;
mod entity;
mod history;
mod id_map;
mod ids;
mod listed;
mod machine;
mod merge;
mod message;
mod name;
mod open_transactions;
mod output;
mod partition;
mod profile;
mod publish_error;
mod record;
mod rules;
mod selection;
mod sessions;
mod slot;
mod slots;
mod store;
mod token;
mod transaction;

pub use activity::Activity;
pub use authorization::{AccessRight, AuthorizationRule, KeyText};
pub use command::{
    Batch, Command, EntityPath, Look, Outcome, ReceiveMode, SessionWanted, Start, SubQueue, Subscriber,
    UnsettledPolicy,
};
pub use config::{CoreConfig, Describe, Expiry};
pub use effect::{
    AttachError, Delivery, Effect, EntityError, Fetched, Lock, Peeked, QueueInfo, RULES_PER_TOPIC, Renewed,
    SUBSCRIPTIONS_PER_TOPIC, SessionError, SessionGrant, SettleError, Stored,
};
pub use entity::{EntityKind, EntityReport, EntitySettings, EntityStatus, EntityVersion};
pub use ids::{ClientId, LinkId, LockId, LockToken, Position, QueueId, SequenceNumber, Ticket, Timestamp};
pub use machine::{Core, EntityView, ReplayError};
pub use message::{Forwarded, Message, More, Properties, PropertyValue, SYSTEM};
pub use output::{Output, StorageError, StoredRecord};
pub use profile::Profile;
pub use publish_error::{PartitionKeyError, PublishError};
pub use record::RecordError;
pub use rules::{Rule, StoredRule};
pub use transaction::{CommitError, Operation, PublishTarget, TransactionError, TransactionId};
