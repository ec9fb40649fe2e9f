//! What does this AMQP link want from the broker, and how is the answer said in AMQP?
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
//! | How is a link opened? | `wanted`, `attach`, `claims`, `sessions`; from a topic: `subscribing`, `selector` |
//! | How does a message come in, how does it go out? | `intake`, `quota`, `inbound`; `delivery`, `outbound` |
//! | What does a transaction need? | `coordinator`, `transacted` |
//! | What goes wrong because a test ordered it? | `faults`, `mischief` |
//! | How are the nodes asked? | `requests`, `cbs`, `management`; what is not read of their answers: `answers` |
//!
//! Invariant: the only crate that names both a performative and a queue outcome. It reads no clock, no socket and
//! no file, and never decides durability: what it tells a client, the core has told it.

mod address;
mod answers;
mod approach;
mod asked_kind;
mod attach;
mod budget;
mod cbs;
mod claims;
mod client_library;
mod condition;
mod config;
mod connection_record;
mod coordinator;
mod delivery;
mod dispatch;
mod early_outcomes;
mod enlisted;
mod enlisting;
mod facts;
mod faults;
mod forgetting;
mod gateway;
mod given_up;
mod handshake;
mod idling;
mod inbound;
mod index;
mod intake;
mod leaving;
mod link;
mod locks;
mod lookups;
mod management;
mod message_id;
mod mischief;
mod notes;
mod outbound;
mod outcome;
mod quota;
mod rate_limit;
mod refusal_log;
mod requests;
mod selector;
mod sessions;
mod settled;
mod settlement;
mod slab;
mod spans;
mod subscribing;
mod telling;
mod tickets;
mod traces;
mod tracking;
mod transacted;
mod wanted;

/// What the transport knows of the peer.
pub use broker_auth::PeerFacts as Peer;
pub use claims::entity_rules;
pub use config::{GatewayConfig, Now};
pub use connection_record::{ConnectionRecord, Ending, LoginRecord};
pub use faults::{FAULTS_MAX, Fault, FaultKind, Faults, TooManyFaults};
pub use gateway::{About, Gateway};
pub use intake::describe;
pub use notes::Note;
pub use rate_limit::{Admission, RateLimit};
pub use refusal_log::{REFUSALS_PER_MINUTE, RefusalLog, Severity};
pub use traces::{Span, SpanId, SpanKind, TraceContext};
pub use tracking::http_trail;
