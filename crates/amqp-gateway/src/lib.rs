//! Gateway between AMQP and the broker core: translates links, transfers and dispositions into commands, and effects into
//! AMQP.
//!
//! One [`Gateway`] per connection. It owns the connection's AMQP engine and speaks with the node in commands and
//! effects; the shell carries both, and bytes, and the time.
//!
//! | question | module |
//! |---|---|
//! | Who handles what comes in? | `dispatch` |
//! | What does a settlement do to a message? | `settlement`, `outcome`, `settled` |
//! | What does an address name? | `address` |
//! | Which client library is it? | `client_library` |
//! | What is a refusal called, and what does the log say of it? | `condition`, `telling`, `tracking`; `refusal_log`, `rate_limit` |
//! | Which log-ins were refused, and how did a connection end? | `connection_record` |
//! | How is a link opened? | `wanted`, `attach`, `claims`, `sessions`; from a topic: `plain_subscription`, `selector` |
//! | How does a message come in, how does it go out? | `options`, `quota`, `inbound`; `delivery`, `outbound` |
//! | What does a transaction need? | `coordinator`, `transacted` |
//! | What goes wrong because a test ordered it? | `faults`, `injected_faults` |
//! | How are the nodes asked? | `requests`, `cbs`, `management`; what is not read of their answers: `answers` |
//!
//! Invariant: the only crate that names both a performative and a queue outcome. It reads no clock, no socket and
//! no file, and never decides durability: what it tells a client, the core has told it.

mod address;
mod attach;
mod attach_request;
mod audit_events;
mod cbs;
mod claims;
mod client_library;
mod condition;
mod config;
mod connection_record;
mod coordinator;
mod correlation;
mod delivery;
mod delivery_window;
mod detach;
mod dispatch;
mod early_outcomes;
mod enlist;
mod enlisted;
mod enlisting;
mod error_reply;
mod fault_injection;
mod fault_table;
mod filter_properties;
mod gateway;
mod given_up;
mod handshake;
mod inbound;
mod key_index;
mod large_replies;
mod link;
mod link_idle_timeout;
mod log_spans;
mod management;
mod message_id;
mod message_limits;
mod message_parse;
mod otel_spans;
mod outbound;
mod outcome;
mod plain_subscription;
mod prefetch;
mod rate_limit;
mod refusal_log;
mod reply_backpressure;
mod requested_kind;
mod requests;
mod selector;
mod sessions;
mod settlement_replies;
mod settlement_rules;
mod settlement_watermark;
mod slab;
mod tracking;
mod unsettled;

pub use audit_events::AuditEvent;
/// Facts that the transport knows of the peer.
pub use broker_auth::PeerFacts as Peer;
pub use claims::entity_rules;
pub use config::{GatewayConfig, Now};
pub use connection_record::{ConnectionRecord, Ending, LoginRecord};
pub use fault_table::{FAULTS_MAX, Fault, FaultKind, Faults, TooManyFaults};
pub use gateway::{About, Gateway};
pub use message_parse::describe;
pub use otel_spans::{Span, SpanId, SpanKind, TraceContext};
pub use rate_limit::{Admission, RateLimit};
pub use refusal_log::{REFUSALS_PER_MINUTE, RefusalLog, Severity};
pub use tracking::http_trail;
