//! Length of session ids.
//!
//! Invariant: no entity has a session whose id is longer than [`SESSION_ID_CHARS_MAX`].

/// Longest id of a session, in characters (Microsoft Learn, "Service Bus quotas").
pub(crate) const SESSION_ID_CHARS_MAX: usize = 128;

/// Whether an id is longer than a session's may be; says by how much.
pub(crate) fn check_session_id(id: &str) -> Result<(), usize> {
    // Shorter texts need no counting.
    let chars = if id.len() <= SESSION_ID_CHARS_MAX { 0 } else { id.chars().count() };
    if chars > SESSION_ID_CHARS_MAX { Err(chars) } else { Ok(()) }
}
