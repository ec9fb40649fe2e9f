//! Precondition of a request on the version of an entity: `If-Match` (RFC 9110, 13.1.1).
//!
//! Invariant: a tag that the broker never sent matches nothing.

use broker_core::EntityReport;

use crate::time;

/// Contents of a header `If-Match`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Match {
    /// `*`: any version.
    Any,
    /// Only what has one of these tags.
    Tags(Box<[u64]>),
}

impl Match {
    /// Reads the value of the header. What is no tag of ours is left out.
    pub fn parse(text: &str) -> Self {
        if text.trim() == "*" {
            return Self::Any;
        }
        Self::Tags(text.split(',').filter_map(|tag| unquoted(tag.trim()).parse().ok()).collect())
    }

    /// Whether what has this tag is meant.
    pub(crate) fn holds(&self, tag: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.contains(&tag),
        }
    }
}

/// The service writes tags without quotes.
fn unquoted(tag: &str) -> &str {
    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag)
}

/// The tag of an entity: when its properties were set, in ticks of 100 ns since the year 1, as in the service. Each
/// update has another time.
pub(crate) fn tag_of_entity(report: &EntityReport) -> u64 {
    time::ticks(report.updated_at)
}

/// The tag of a rule: of rules it is known only when they were made, so what they are makes it (FNV-1a).
pub(crate) fn tag_of_text(description: &str) -> u64 {
    let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    // Half of it: clients keep numbers with a sign.
    description.bytes().fold(0xcbf2_9ce4_8422_2325, mixed) >> 1
}

#[cfg(test)]
mod tests;
