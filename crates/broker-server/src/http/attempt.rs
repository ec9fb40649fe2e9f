//! A request that administers something, as the audit log tells it.
//!
//! Invariant: none holds a key or a body.

/// A request that administers something, as the audit log tells it where it is refused.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Attempt {
    pub(super) action: &'static str,
    /// Empty for what is about the whole broker.
    pub(super) namespace: String,
    pub(super) subject: String,
}

impl Attempt {
    /// Action and object in one text.
    pub(super) fn in_words(&self) -> String {
        let words = [self.action, self.namespace.as_str(), self.subject.as_str()];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        words.join(" ")
    }
}
