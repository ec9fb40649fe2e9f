//! Prefixes of addresses: texts in front of a name that say which kind of node it names.
//!
//! Invariant: of the prefixes that an address begins with the longest counts, in whatever order they were given.

use std::{cmp::Reverse, sync::LazyLock};

use broker_core::{NameError, NodeKind, check_name_text};

use super::forms::{is_of_rabbit, uri_path};

/// Most prefixes of a configuration.
pub const ADDRESS_PREFIXES_MAX: usize = 64;
/// Longest prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 256;

/// A text in front of the addresses of plain clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddressPrefix {
    /// The text, compared exactly.
    pub text: Box<str>,
    /// The kind of node that it asks for; `None`: any.
    pub kind: Option<NodeKind>,
    /// The text is the beginning of the name, and not only a word in front of it.
    pub is_part_of_name: bool,
}

impl AddressPrefix {
    fn new(text: &str, kind: NodeKind, is_part_of_name: bool) -> Self {
        Self { text: text.into(), kind: Some(kind), is_part_of_name }
    }

    /// Whether it changes neither kind nor name.
    const fn is_void(&self) -> bool {
        self.kind.is_none() && self.is_part_of_name
    }
}

/// Reason why prefixes cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AddressPrefixError {
    #[error("there are {0} prefixes, at most {ADDRESS_PREFIXES_MAX} are allowed")]
    TooMany(usize),
    /// Nothing, or slashes alone, which stand in front of every address.
    #[error("the prefix `{0}` has no text")]
    Empty(Box<str>),
    #[error("the prefix `{0}` has more than {PREFIX_BYTES_MAX} bytes")]
    TooLong(Box<str>),
    /// No address has it: its name would be none.
    #[error("the prefix `{}` cannot be in an address: {error}", text.escape_debug())]
    Character { text: Box<str>, error: NameError },
    /// It stands for something else already.
    #[error("the prefix `{0}` is taken: {1}")]
    Taken(Box<str>, &'static str),
    #[error("the prefix `{0}` is given twice")]
    Twice(Box<str>),
    /// It would leave addresses as they are.
    #[error("the prefix `{0}` has no effect: it names no kind and stays a part of the name")]
    NoEffect(Box<str>),
}

/// The prefixes that the addresses of plain clients may have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AddressPrefixes(Vec<AddressPrefix>);

impl Default for AddressPrefixes {
    fn default() -> Self {
        Self::built_in().clone()
    }
}

impl AddressPrefixes {
    /// Those that need no configuration: `ActiveMQ` writes the first four, Artemis' manual proposes the others. The last two, of
    /// Artemis 1, look like the beginning of a name, and stay part of it: an entity may have been called so.
    pub(crate) fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<AddressPrefixes> = LazyLock::new(|| {
            AddressPrefixes::sorted(vec![
                AddressPrefix::new("queue://", NodeKind::Queue, false),
                AddressPrefix::new("topic://", NodeKind::Topic, false),
                AddressPrefix::new("temp-queue://", NodeKind::TemporaryQueue, false),
                AddressPrefix::new("temp-topic://", NodeKind::TemporaryTopic, false),
                AddressPrefix::new("anycast://", NodeKind::Queue, false),
                AddressPrefix::new("multicast://", NodeKind::Topic, false),
                AddressPrefix::new("jms.queue.", NodeKind::Queue, true),
                AddressPrefix::new("jms.topic.", NodeKind::Topic, true),
            ])
        });
        &BUILT_IN
    }

    /// The built-in ones and these, which replace a built-in one of the same text.
    pub fn with(given: &[AddressPrefix]) -> Result<Self, AddressPrefixError> {
        if given.len() > ADDRESS_PREFIXES_MAX {
            return Err(AddressPrefixError::TooMany(given.len()));
        }
        let mut all = Self::built_in().0.clone();
        for (number, prefix) in given.iter().enumerate() {
            check(&prefix.text)?;
            if given.iter().take(number).any(|other| other.text == prefix.text) {
                return Err(AddressPrefixError::Twice(prefix.text.clone()));
            }
            let replaced = all.iter().position(|other| other.text == prefix.text);
            match replaced.and_then(|place| all.get_mut(place)) {
                Some(built_in) => *built_in = prefix.clone(),
                None if prefix.is_void() => return Err(AddressPrefixError::NoEffect(prefix.text.clone())),
                None => all.push(prefix.clone()),
            }
        }
        Ok(Self::sorted(all))
    }

    fn sorted(mut all: Vec<AddressPrefix>) -> Self {
        all.sort_by_key(|prefix| Reverse(prefix.text.len()));
        Self(all)
    }

    /// The prefix of an address, and the text of its name.
    pub(super) fn split<'a>(&self, address: &'a str) -> Option<(&AddressPrefix, &'a str)> {
        let prefix = self.0.iter().find(|prefix| address.starts_with(&*prefix.text))?;
        let name = if prefix.is_part_of_name { address } else { address.get(prefix.text.len()..)? };
        Some((prefix, name))
    }
}

/// Checks the text of a prefix alone.
fn check(text: &str) -> Result<(), AddressPrefixError> {
    let taken = |why| Err(AddressPrefixError::Taken(text.into(), why));
    if text.trim_matches('/').is_empty() {
        return Err(AddressPrefixError::Empty(text.into()));
    }
    if text.len() > PREFIX_BYTES_MAX {
        return Err(AddressPrefixError::TooLong(text.into()));
    }
    check_name_text(text).map_err(|error| AddressPrefixError::Character { text: text.into(), error })?;
    if text.trim_start_matches('/').starts_with('$') {
        return taken("names of nodes of the broker begin with `$`");
    }
    if is_of_rabbit(text) {
        return taken("addresses of RabbitMQ begin so");
    }
    if uri_path(text).is_some() { taken("a URI begins so") } else { Ok(()) }
}

#[cfg(test)]
mod tests;
