//! Sockets, threads, the real clock and the real disk around the pure crates.
//!
//! One task drives each connection, whoever brings work runs the node, one thread writes what the journal collects.
//! Everything that decides lives in the crates below; here is only who runs it, and when.
//!
//! Invariant: whatever ends a connection, its gateway's last commands reach the node, so no lock is left behind.

mod accept;
mod audit;
mod clock;
mod config;
mod connection;
mod connection_limit;
mod connections;
mod credit_due;
mod deadline_timer;
mod disk_space;
mod disk_thread;
mod effect_queue;
mod entity_key_cache;
mod executor;
mod fault_subscription;
mod http;
mod ingress_credit;
mod io_threads;
mod jwks_refresh;
mod metrics;
mod node_driver;
mod node_thread;
mod observability;
mod otlp;
mod permissions;
mod prepared;
mod prometheus;
mod read_limit;
mod reload;
mod remote;
mod server;
mod shared;
mod shutdown;
mod signals;
mod slow_log;
mod socket;
mod submission;
mod tls;
mod transport;
mod websocket;
mod write_timeout;
mod wrong_protocol;

pub use config::{EntityPlan, MissingRight, ServerConfig};
pub use jwks_refresh::KeySource;
pub use observability::ObservabilityConfig;
pub use otlp::TelemetryConfig;
pub use prepared::{EntityChange, Prepared};
pub use reload::{ReloadError, ReloadableConfig, Reloader};
pub use remote::RemoteError;
pub use server::{Outcome, Server, StartError};
pub use signals::Signals;
pub use tls::{TlsError, TlsFiles};
