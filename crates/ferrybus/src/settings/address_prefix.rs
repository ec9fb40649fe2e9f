//! `[[address_prefix]]`: texts in front of the addresses of plain clients.
//!
//! Invariant: a prefix that would take nothing, or something that has a meaning already, is refused by its text.

use broker_core::NodeKind;
use broker_server::{AddressPrefix, AddressPrefixes};
use serde::Deserialize;

use crate::failure::Failure;

/// `[[address_prefix]]`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AddressPrefixEntry {
    prefix: String,
    /// `None`: it asks for no kind.
    kind: Option<PrefixKind>,
    /// The prefix belongs to the name of the entity.
    part_of_name: bool,
}

/// Kind of node that a prefix asks for.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PrefixKind {
    Queue,
    Topic,
    TemporaryQueue,
    TemporaryTopic,
}

impl From<PrefixKind> for NodeKind {
    fn from(kind: PrefixKind) -> Self {
        match kind {
            PrefixKind::Queue => Self::Queue,
            PrefixKind::Topic => Self::Topic,
            PrefixKind::TemporaryQueue => Self::TemporaryQueue,
            PrefixKind::TemporaryTopic => Self::TemporaryTopic,
        }
    }
}

/// The prefixes of the broker.
pub(super) fn address_prefixes(entries: &[AddressPrefixEntry]) -> Result<AddressPrefixes, Failure> {
    let given = entries.iter().map(|entry| AddressPrefix {
        text: entry.prefix.as_str().into(),
        kind: entry.kind.map(NodeKind::from),
        is_part_of_name: entry.part_of_name,
    });
    let given: Vec<_> = given.collect();
    AddressPrefixes::with(&given).map_err(|error| {
        Failure::misuse(format_args!("`address_prefix`: {error}"))
            .hint("a prefix is a text such as `jms.queue.`, each with a table of its own")
    })
}

#[cfg(test)]
mod tests;
