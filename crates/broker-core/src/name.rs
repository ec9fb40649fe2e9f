//! Names of entities (`service-bus-entities` 1).
//!
//! Invariant: two names that differ only in ASCII case have the same key.

/// Most characters in the name of a queue or topic.
const NAME_CHARS_MAX: usize = 260;

/// Whether an entity can have this name: letters, digits, `.`, `-`, `_` in segments parted by `/`; first and last
/// character a letter or digit; no empty segment; at most 260 characters.
pub(crate) fn is_valid(name: &str) -> bool {
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    let middle = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    ends && name.len() <= NAME_CHARS_MAX && name.chars().all(middle) && !name.contains("//")
}

/// What names are compared by.
pub(crate) fn key(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
