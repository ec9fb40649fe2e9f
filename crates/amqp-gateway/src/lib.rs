//! Gateway between AMQP and the broker core: translates links, transfers and dispositions into commands, and effects into
//! AMQP.
//!
//! One [`Gateway`] per connection. It owns the connection's AMQP engine and speaks with the node in commands and
//! effects; the shell carries both, and bytes, and the time.
//!
//! | question | module |
//! |---|---|
//! | Where does each event and effect go? | `gateway` |
//! | What may each handler use, and what state do links share? | `cx`, `endpoints`, `session`, `pending` |
//! | Who is the client, and how did its connection begin and end? | `connection` |
//! | How is a link opened, what credit has it, how does it end? | `link` |
//! | How does a message come in, how does it go out? | `transfer` |
//! | What does a settlement do to a message? | `disposition` |
//! | What does a transaction need? | `transaction` |
//! | How are the nodes asked, and how do they answer? | `request` |
//! | What does an address name, and which dialect is spoken? | `address`, `dialect` |
//! | What is a refusal called, and what does the log say of it? | `condition`, `tracking`; `refusal_log`, `rate_limit` |
//! | What goes wrong because a test ordered it? | `fault_injection` |
//!
//! Invariant: the only crate that names both a performative and a queue outcome. It reads no clock, no socket and
//! no file, and never decides durability: what it tells a client, the core has told it.

mod address;
mod condition;
mod config;
mod connection;
mod correlation;
mod cx;
mod dialect;
mod disposition;
mod endpoints;
mod entity_rules;
mod fault_injection;
mod gateway;
mod key_index;
mod link;
mod log_spans;
mod otel_spans;
mod pending;
mod rate_limit;
mod refusal_log;
mod request;
mod session;
mod slab;
mod tracking;
mod transaction;
mod transfer;

/// Facts that the transport knows of the peer.
pub use broker_auth::PeerFacts as Peer;
pub use config::{GatewayConfig, Now};
pub use connection::record::{AuditEvent, ConnectionRecord, Ending, LoginRecord};
pub use entity_rules::entity_rules;
pub use fault_injection::table::{FAULTS_MAX, Fault, FaultKind, Faults, TooManyFaults};
pub use gateway::{About, Gateway};
pub use otel_spans::{Span, SpanId, SpanKind, TraceContext};
pub use rate_limit::{Admission, RateLimit};
pub use refusal_log::{REFUSALS_PER_MINUTE, RefusalLog, Severity};
pub use tracking::http_trail;
pub use transfer::message_parse::describe;
