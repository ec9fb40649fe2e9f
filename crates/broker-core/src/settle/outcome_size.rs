//! Bytes that an outcome writes anew of a message.
//!
//! Invariant: `writes_at_most` is never less than what is recorded.

use crate::{Outcome, Properties, PropertyValue};

impl Outcome {
    /// Whether the message's record is read and written anew.
    pub(crate) fn writes_anew(&self) -> bool {
        match self {
            Self::Complete => false,
            Self::Abandon(properties) | Self::Release(properties) | Self::Defer(properties) => {
                !properties.0.is_empty()
            }
            Self::DeadLetter(_) => true,
        }
    }

    /// Most bytes that it writes for a message of `length` bytes. A message that returns may have been delivered too
    /// often or have expired, and is then written again as a dead letter.
    pub(crate) fn writes_at_most(&self, length: u64) -> u64 {
        match self {
            Self::Complete => 0,
            Self::Abandon(more) | Self::Release(more) | Self::Defer(more) | Self::DeadLetter(more) => {
                length + size_of(more)
            }
        }
    }
}

/// Bytes of properties as a client sent them.
fn size_of(properties: &Properties) -> u64 {
    let one = |(name, value): &(Box<str>, PropertyValue)| {
        name.len()
            + match value {
                PropertyValue::Text(text) => text.len(),
                PropertyValue::Encoded(bytes) => bytes.len(),
                // No client sends these.
                PropertyValue::Value(_) | PropertyValue::Removed => 0,
            }
    };
    properties.0.iter().map(one).sum::<usize>() as u64
}
