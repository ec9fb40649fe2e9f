//! Texts in the audit log that a client chose.
//!
//! Invariant: each is cut to the same length, between two characters.

/// The target of all lines.
pub(crate) const TARGET: &str = "ferrybus::audit";

/// The beginning of a text that a client chose, perhaps before its log-in.
pub(crate) fn short(text: &str) -> &str {
    text.char_indices().nth(NAME_CHARS_MAX).map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// Characters of a name that are logged. Those of a rule with its subscription and topic have less.
const NAME_CHARS_MAX: usize = 512;
