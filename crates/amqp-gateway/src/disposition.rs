//! Dispositions of the peer for what the broker sent it: their effect on the message, and the reply.
//!
//! ```text
//! disposition ─▶ settle ─▶ rules (what it does) ─▶ outcome (its data) ─▶ command to the core
//!                   │                                                        │
//!                   └─▶ transactional (while transactions are open)          ▼
//! peer ◀──────────── reply, watermark ◀──────────────────────────── answer of the core
//! ```
//!
//! Invariant: a delivery is in its session's table of unsettled ones until its settlement is on its way to the core, or is
//! refused.

pub(crate) mod given_up;
pub(crate) mod outcome;
mod reply;
pub(crate) mod rules;
pub(crate) mod settle;
mod transactional;
pub(crate) mod unsettled;
pub(crate) mod watermark;
