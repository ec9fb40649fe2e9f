//! AMQP 1.0 codec: types, performatives, frames and message sections, both ways.
//!
//! Bytes and plain values in, plain values and bytes out. There is no connection, no time, no queue
//! and no I/O here. Modules answer one question each and use only those before them:
//!
//! | module | question |
//! |---|---|
//! | [`text`] | What of a text fits? |
//! | [`types`] | How is one primitive value read and written? |
//! | [`guard`] | Is this encoded value safe to look into? |
//! | [`raw`] | What does this still encoded value say, without building a tree of it? |
//! | [`value`] | What is this cold value as a tree? |
//! | [`performative`] | What does the body of this frame say? |
//! | [`sections`] | Where are the parts of this message? |
//! | [`message`] | How is a message rewritten for delivery, unpacked, or built? |
//! | [`frame`] | How long is this frame, and which channel is it for? |
//!
//! Invariant: no input panics, recurses without bound, or allocates more than a small multiple of
//! its own size.

pub mod frame;
pub mod guard;
pub mod message;
pub mod performative;
pub mod raw;
pub mod sections;
pub mod text;
pub mod types;
pub mod value;
