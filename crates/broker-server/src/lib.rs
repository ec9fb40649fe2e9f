//! Sockets, threads, the real clock and the real disk around the pure crates.
//!
//! One task drives each connection; the task that submits a batch runs the node, unless it is running; one thread
//! writes the journal. All decisions are made in the crates below; this one schedules them.
//!
//! Invariant: a connection can end in any way, and the last commands of its gateway reach the node, so no lock is left.

mod accept;
mod administrators;
mod audit;
mod clock;
mod config;
mod connection;
mod connection_limit;
mod connection_turns;
mod connections;
mod credit_due;
mod deadline_timer;
mod disk_state;
mod disk_thread;
mod effect_queue;
mod entity_key_watch;
mod executor;
mod fault_subscription;
mod full_log;
mod handshake_turns;
mod host_table;
mod http;
mod in_flight_limit;
mod in_process;
mod ingress_credit;
mod io_threads;
mod jwks_refresh;
mod metrics;
mod namespace_names;
mod namespace_observer;
mod namespaces;
mod node_driver;
mod node_identity;
mod node_thread;
mod observability;
mod otlp;
mod permissions;
mod prepared;
mod process_memory;
mod prometheus;
mod queue_place;
mod randomness;
mod read_limit;
mod recovery_gate;
mod reload;
mod remote;
mod server;
mod shards;
mod shared;
mod shutdown;
mod signals;
mod slow_log;
mod socket;
mod start_error;
mod submission;
mod task_turns;
mod tls;
mod transport;
mod turn_queue;
mod unfinished;
mod websocket;
mod work_pace;
mod write_timeout;
mod wrong_protocol;

/// Prefixes of addresses, a part of [`ServerConfig`].
pub use amqp_gateway::{AddressPrefix, AddressPrefixError, AddressPrefixes};
pub use config::{EntityPlan, MissingRight, NamespacePlan, ServerConfig};
pub use host_table::{HostLookup, HostTable, NameConflict};
pub use in_process::{InProcessClient, InProcessShards};
pub use jwks_refresh::KeySource;
pub use namespace_names::{HostName, HostNameError, NamespaceName};
pub use node_identity::IdentityError;
pub use observability::ObservabilityConfig;
pub use otlp::TelemetryConfig;
pub use prepared::{EntityChange, Prepared};
pub use process_memory::ProcessMemory;
pub use randomness::RandomnessError;
pub use recovery_gate::RecoveryGate;
pub use reload::{ReloadError, ReloadableConfig, Reloader};
pub use remote::RemoteError;
pub use server::{Outcome, Server};
pub use signals::Signals;
pub use start_error::StartError;
pub use tls::{TlsError, TlsFiles};
