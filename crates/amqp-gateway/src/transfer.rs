//! Transfers: messages from the peer to the core, and from the core to the peer.
//!
//! Invariant: the bytes of a message pass through unread but for the sections and fields that the broker needs.

pub(crate) mod delivery;
pub(crate) mod delivery_delay;
pub(crate) mod early_outcomes;
pub(crate) mod filter_properties;
pub(crate) mod incoming;
pub(crate) mod message_id;
pub(crate) mod message_limits;
pub(crate) mod message_parse;
pub(crate) mod outgoing;
pub(crate) mod prefetch;
mod section_buffer;

pub(crate) use self::section_buffer::SectionBuffer;
