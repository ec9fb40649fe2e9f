//! Authorization rules: keys of one entity, and the rights that each grants there (`docs/features/tokens.md`).
//!
//! Invariant: no key is part of a `Debug` text or of an error.

use std::fmt;

use super::settings::out_of_range;
use crate::{EntityError, Timestamp};

/// Most authorization rules of one entity (Microsoft Learn, "Service Bus quotas").
const RULES_MAX: usize = 12;
/// Most characters in the name of a rule.
const NAME_CHARS_MAX: usize = 256;
/// Characters of a key, whatever they say. The SDK for .NET checks this length alone (`SupportedSASKeyLength`), and the
/// tests of the one for Go write 22 bytes in hexadecimal digits.
const KEY_CHARS: usize = 44;
/// Name of the property in error texts.
const PROPERTY: &str = "AuthorizationRules";

/// Right that an authorization rule grants.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AccessRight {
    /// Everything, the other two included.
    Manage = 1,
    /// Publish messages.
    Send = 2,
    /// Receive, peek, settle and renew.
    Listen = 3,
}

/// The text of a key.
#[derive(Clone, Eq, PartialEq)]
pub struct KeyText(Box<str>);

impl KeyText {
    /// Hides `text`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for clients with the right *Manage*.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn check(&self) -> Result<(), EntityError> {
        // A space would be lost at the ends of an XML element or in a connection string.
        if !self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            return out_of_range(
                PROPERTY,
                "a key with others".to_owned(),
                "keys of visible ASCII characters",
            );
        }
        if self.0.len() != KEY_CHARS {
            let value = format!("a key of {} characters", self.0.len());
            return out_of_range(PROPERTY, value, "keys of 44 characters");
        }
        Ok(())
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

/// A shared access rule of an entity: a name, two keys so that one can be replaced while the other is in use, and
/// rights.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuthorizationRule {
    /// Key name, `skn` in a token: 1 to 256 characters that a URL takes without escapes, unique within the entity.
    pub name: Box<str>,
    /// At least one, none twice, as they were given.
    pub rights: Vec<AccessRight>,
    pub primary: KeyText,
    /// The other key, just as good.
    pub secondary: Option<KeyText>,
    /// As its client says, zero where it says nothing; of a key of a namespace the time when it was first given.
    pub created_at: Timestamp,
    /// As its client says, zero where it says nothing; of a key of a namespace the time of its last change.
    pub modified_at: Timestamp,
}

impl AuthorizationRule {
    /// Refuses a rule that nothing may have.
    pub fn check(&self) -> Result<(), EntityError> {
        let is_plain = |c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '!' | '*' | '(' | ')' | '\'')
        };
        if self.name.is_empty() || self.name.len() > NAME_CHARS_MAX || !self.name.chars().all(is_plain) {
            let name = self.name.chars().take(NAME_CHARS_MAX).collect::<String>();
            let allowed = "names of 1 to 256 letters, digits and -_.~!*()'";
            return out_of_range(PROPERTY, format!("a rule named `{}`", name.escape_debug()), allowed);
        }
        let is_repeated =
            |at: usize| self.rights.iter().take(at).any(|right| Some(right) == self.rights.get(at));
        if self.rights.is_empty() || (0..self.rights.len()).any(is_repeated) {
            let value = format!("{} rights of the rule `{}`", self.rights.len(), self.name);
            return out_of_range(PROPERTY, value, "one to three of Manage, Send and Listen, each once");
        }
        self.primary.check()?;
        self.secondary.as_ref().map_or(Ok(()), KeyText::check)
    }
}

/// Refuses what no entity may have.
pub(crate) fn check(rules: &[AuthorizationRule]) -> Result<(), EntityError> {
    if rules.len() > RULES_MAX {
        let limit = RULES_MAX as u64;
        return Err(EntityError::LimitReached { what: "authorization rules of an entity", limit });
    }
    for (at, rule) in rules.iter().enumerate() {
        rule.check()?;
        if rules.iter().take(at).any(|before| before.name == rule.name) {
            return out_of_range(PROPERTY, format!("`{}` twice", rule.name), "each name once");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
