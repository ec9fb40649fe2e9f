//! What happens to a message: entities, sequence numbers, locks, settlement, dead-lettering.
//!
//! Invariant: the outputs depend on the inputs alone. Commands, time and the lock-token key come in as
//! arguments; records and effects go out through [`Output`]. No socket, file, clock, thread or hash order.

mod activity;
mod attach_error;
mod authorization;
mod client;
mod command;
mod config;
mod deadlines;
mod delivery;
mod effect;
mod entity;
mod entity_error;
mod history;
mod id_map;
mod ids;
mod listed;
mod look;
mod machine;
mod merge;
mod message;
mod name;
mod no_room;
mod open_transactions;
mod output;
mod partition;
mod path;
mod profile;
mod publish_error;
mod receiving;
mod record;
mod rules;
mod selection;
mod session_error;
mod sessions;
mod settlement;
mod slot;
mod slots;
mod store;
mod token;
mod transaction;

pub use activity::Activity;
pub use attach_error::AttachError;
pub use authorization::{AccessRight, AuthorizationRule, KeyText};
pub use command::{Batch, Command};
pub use config::{CoreConfig, Describe, Expiry};
pub use delivery::{Delivery, Fetched, Lock, Peeked, Renewed, Stored};
pub use effect::{Effect, QueueInfo, SessionGrant};
pub use entity::{EntityKind, EntityReport, EntitySettings, EntityStatus, EntityVersion};
pub use entity_error::{EntityError, RULES_PER_TOPIC, SUBSCRIPTIONS_PER_TOPIC};
pub use ids::{ClientId, LinkId, LockId, LockToken, Position, QueueId, SequenceNumber, Ticket, Timestamp};
pub use look::{Look, Start};
pub use machine::{Core, EntityView, ReplayError};
pub use message::{Forwarded, Message, More, Properties, PropertyValue, SYSTEM};
pub use no_room::NoRoom;
pub use output::{Output, StorageError, StoredRecord};
pub use path::{EntityPath, SubQueue};
pub use profile::Profile;
pub use publish_error::{PartitionKeyError, PublishError};
pub use receiving::{ReceiveMode, SessionWanted, Subscriber, UnsettledPolicy};
pub use record::RecordError;
pub use rules::{Rule, StoredRule};
pub use session_error::SessionError;
pub use settlement::{Outcome, SettleError};
pub use transaction::{CommitError, Operation, PublishTarget, TransactionError, TransactionId};
