//! Log spans of sessions and links.
//!
//! Invariant: where nobody looks it costs nothing: a span that is off holds nothing, and no message passes here.

use tracing::{Span, debug_span};

/// Of a session that has begun, below its connection.
pub(crate) fn session(number: u32) -> Span {
    debug_span!("session", number)
}

/// Of a link that was asked for, below its session.
pub(crate) fn link(session: &Span, name: &str, role: &str, address: &str) -> Span {
    debug_span!(parent: session, "link", name, role, address)
}
