//! Queueing rules: entities, sequence numbers, locks, settlement, dead-lettering.
//!
//! Invariant: the outputs depend on the inputs alone. Commands, time and the lock-token key come in as
//! arguments; records and effects go out through [`Output`]. No socket, file, clock, thread or hash order.

mod admin;
mod batch;
mod call;
mod command;
mod command_reads;
mod command_router;
mod config;
mod core;
mod deliver;
mod disk_waits;
mod due_work;
mod effect;
mod entity;
mod id_map;
mod ids;
mod link;
mod messages;
mod namespace;
mod output;
mod output_coalescer;
mod prefetch;
mod profile;
mod publish;
mod record;
mod recovery;
mod session;
mod settle;
mod store;
mod tenancy;
mod transaction;
mod work;

pub use self::core::Core;
pub use admin::snapshot::EntityView;
pub use batch::Batch;
pub use command::Command;
pub use command_reads::BatchRest;
pub use config::{CoreConfig, Describe, PROPERTIES_BYTES_MAX};
pub use deliver::delivery::{Delivery, Fetched, Lock, Peeked, Renewed, Stored};
pub use deliver::receiving::{ReceiveMode, SessionWanted, Subscriber, UnsettledPolicy};
pub use effect::{Effect, QueueInfo, SessionGrant};
pub use entity::authorization::{AccessRight, AuthorizationRule, KeyText};
pub use entity::dynamic::{DYNAMIC_PREFIX, DynamicNode, LifetimePolicy, is_dynamic_name};
pub use entity::error::{EntityError, RULES_PER_TOPIC, SUBSCRIPTIONS_PER_TOPIC};
pub use entity::name::{
    NAME_BYTES_MAX, NameError, NameScope, check_name, check_name_text, is_service_bus_name,
    split_subscription,
};
pub use entity::node_kind::NodeKind;
pub use entity::path::{EntityPath, SubQueue};
pub use entity::property::{EntityProperty, PropertyRow, PropertyType, SettingValue};
pub use entity::query::{EntityQuery, PageStart};
pub use entity::rules::{Rule, StoredRule};
pub use entity::settings::{
    EntityKind, EntityReport, EntitySettings, EntityStatus, EntityVersion, LockLifetime,
};
pub(crate) use ids::LockRef;
pub use ids::{ClientId, LinkId, LockId, LockToken, Position, QueueId, SequenceNumber, Ticket, Timestamp};
pub use link::error::AttachError;
pub use output::{Output, Read, ReadId, StorageError, StoredRecord};
pub use profile::Profile;
pub use publish::error::{PartitionKeyError, PublishError};
pub use publish::message::{Forwarded, LimitScope, Message, Properties, SYSTEM, StoredExtras};
pub use publish::property_list::{PropertyList, PropertyValue};
pub use publish::quota_error::QuotaError;
pub use record::{NamespaceRecord, RecordError, RecordOwner, convert_record_of_0_1};
pub use recovery::ReplayError;
pub use session::error::SessionError;
pub use settle::outcome::{Outcome, SettleError};
pub use store::activity::Activity;
pub use tenancy::definition::{NamespaceDefinition, NamespaceSettings, NamespaceSlot, NamespaceState};
pub use tenancy::error::NamespaceError;
pub use tenancy::limit::{NAMESPACE_WEIGHTS, NamespaceLimit, NamespaceLimits};
pub use tenancy::name::{DEFAULT_NAMESPACE, NAMESPACE_NAME_CHARS_MAX, NamespaceNameError, namespace_key};
pub use transaction::error::TransactionError;
pub use transaction::operation::{CommitError, TransactionId};
pub use work::{Work, WorkBudget};
