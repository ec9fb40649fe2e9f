//! Gateway between AMQP and the broker core: translates links, transfers and dispositions into commands, and effects into
//! AMQP.
//!
//! One [`Gateway`] per connection. It owns the connection's AMQP engine and speaks with the node in commands and
//! effects; the shell carries both, and bytes, and the time.
//!
//! | concern | module |
//! |---|---|
//! | dispatch of events and effects | `gateway` |
//! | context of a handler, state that links share | `cx`, `endpoints`, `session`, `pending` |
//! | client, begin and end of its connection | `connection` |
//! | attach, credit and detach of links | `link` |
//! | incoming and outgoing messages | `transfer` |
//! | settlement | `disposition` |
//! | dynamic nodes | `dynamic`, `link/dynamic_attach` |
//! | transactions | `transaction` |
//! | requests to `$cbs` and `$management`, and their replies | `request` |
//! | addresses and dialects | `address`, `dialect` |
//! | error conditions, and the log of refusals | `condition`, `tracking`; `refusal_log`, `rate_limit` |
//! | faults that a test has ordered | `fault_injection` |
//! | cost of the input, and the budget of a turn | `turn_work` |
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
mod dynamic;
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
mod turn_work;

pub use address::prefixes::{ADDRESS_PREFIXES_MAX, AddressPrefix, AddressPrefixError, AddressPrefixes};
/// Facts that the transport knows of the peer.
pub use broker_auth::PeerFacts as Peer;
pub use config::{GatewayConfig, Now};
pub use connection::placement::{GatewayNamespace, Placement, PlacementRefusal, PlacementRequest};
pub use connection::record::{AuditEvent, ConnectionRecord, Ending, LoginRecord};
pub use dynamic::pool::{ALL_DYNAMIC_NODES, CONNECTION_DYNAMIC_NODES, DynamicNodePool};
pub use entity_rules::entity_rules;
pub use fault_injection::table::{FAULTS_MAX, Fault, FaultKind, Faults, TooManyFaults};
pub use gateway::{About, CloseReason, Gateway};
pub use otel_spans::{Span, SpanId, SpanKind, TraceContext};
pub use rate_limit::{Admission, RateLimit};
pub use refusal_log::{REFUSALS_PER_MINUTE, RefusalLog, Severity};
pub use tracking::http_trail;
pub use transfer::message_parse::describe;
pub use turn_work::{LOGIN_WORK, work_of_token};
