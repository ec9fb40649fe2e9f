//! Names of namespaces.
//!
//! Invariant: a name is one label of a host name, or could be one but for `_`: it is found as the first label of the host
//! that a client connects to.

/// Name of the namespace that every shard 0 has, in slot 0.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Most characters of a name: those of one label (RFC 1035 section 2.3.4).
pub const NAMESPACE_NAME_CHARS_MAX: usize = 63;

/// Reason why a text is no name of a namespace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NamespaceNameError {
    #[error("a namespace name has 1 to {NAMESPACE_NAME_CHARS_MAX} characters, this one has {0}")]
    Length(usize),
    #[error("a namespace name has ASCII letters, digits, `-` and `_`, this one has {0:?}")]
    Character(char),
    #[error("a namespace name does not begin or end with `-`")]
    Hyphen,
}

/// The key under which a namespace is found: names differ in more than their case.
pub fn namespace_key(name: &str) -> Result<Box<str>, NamespaceNameError> {
    let chars = name.chars().count();
    if !(1..=NAMESPACE_NAME_CHARS_MAX).contains(&chars) {
        return Err(NamespaceNameError::Length(chars));
    }
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if let Some(other) = name.chars().find(|c| !is_good(*c)) {
        return Err(NamespaceNameError::Character(other));
    }
    if name.starts_with('-') || name.ends_with('-') {
        return Err(NamespaceNameError::Hyphen);
    }
    Ok(name.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests;
