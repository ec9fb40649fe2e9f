//! Sockets, threads, the real clock and the real disk around the pure crates.
//!
//! One task drives each connection, whoever brings work runs the node, one thread writes what the journal collects.
//! Everything that decides lives in the crates below; here is only who runs it, and when.
//!
//! Invariant: whatever ends a connection, its gateway's last commands reach the node, so no lock is left behind.

mod accept;
mod alarm;
mod audit;
mod clock;
mod config;
mod connection;
mod connections;
mod disk_space;
mod disk_thread;
mod exposition;
mod handing_over;
mod http;
mod in_flight;
mod inbox;
mod keyring;
mod keys;
mod limited;
mod mailbox;
mod meters;
mod node_thread;
mod observe;
mod orders;
mod otlp;
mod patient;
mod permissions;
mod places;
mod prepared;
mod reload;
mod runner;
mod server;
mod signals;
mod slow;
mod socket;
mod stop;
mod threads;
mod tls;
mod transport;
mod websocket;
mod wrong_protocol;

pub use config::{EntityPlan, MissingRight, Quotas, ServerConfig};
pub use keys::KeySource;
pub use observe::ObserveConfig;
pub use otlp::TelemetryConfig;
pub use prepared::{EntityChange, Prepared};
pub use reload::{ReloadableConfig, Reloader};
pub use server::{Outcome, Server, StartError};
pub use signals::Signals;
pub use tls::{TlsError, TlsFiles};
