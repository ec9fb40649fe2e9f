//! The state of one AMQP 1.0 connection, server side: SASL, connection, sessions, links, windows,
//! credit, deliveries. Sans-IO: bytes and the time come in, events and bytes go out.
//!
//! The engine knows what the transport demands and nothing of queues: it does not know what an
//! outcome means, who may attach, or where a message goes. A mistake of the peer is answered here,
//! with the condition the specification names; the layer above learns of it by an event.
//!
//! Start at [`Connection`].
//!
//! Invariant: no bytes of a peer panic, hang, or make a connection grow beyond its [`Config`].

pub mod condition;
pub mod config;

mod command;
mod connection;
mod context;
mod delivery;
mod endpoints;
mod event;
mod fault;
mod framing;
mod gather;
mod ids;
mod link;
mod output;
mod sasl;
mod session;
mod view;

pub use command::{AttachReply, OpenReply};
pub use config::Config;
pub use connection::{Connection, Peer, RefusedHandshake};
pub use delivery::OutgoingDelivery;
pub use event::{Event, IncomingDelivery, Origin};
pub use gather::GatherBuffer;
pub use ids::{DeliveryId, LinkKey, SessionId};
pub use view::{LinkView, SessionView};
