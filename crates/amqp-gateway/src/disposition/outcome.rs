//! The data of an outcome: reasons and properties, from the wire to the queue.
//!
//! Invariant: what a client sent keeps its encoding; only reasons and descriptions become texts, of bounded
//! length.

use amqp_codec::{
    performative::{DeliveryState, Error},
    raw::{RawMap, RawValue},
    text::cut,
};
use broker_core::{Outcome, PROPERTIES_BYTES_MAX, Properties, PropertyValue, SYSTEM};
use bytes::Bytes;

use crate::{dialect::Dialect, disposition::rules::QueueAction};

/// Application property that says why a message was dead-lettered.
pub(crate) const REASON: &str = "DeadLetterReason";
/// Application property that explains it.
pub(crate) const DESCRIPTION: &str = "DeadLetterErrorDescription";
/// Longest reason or description, in characters.
const TEXT_CHARS_MAX: usize = 4096;
/// First character of a stored name that is a message annotation and no application property. No client can
/// send it as part of either, for it is taken off what they send.
pub(crate) const ANNOTATION: char = '\u{1}';

/// The outcomes that one disposition has, by action and dialect. Deliveries with the same one share its properties, which would
/// otherwise be copied for each delivery of a range.
#[derive(Debug, Default)]
pub(crate) struct SharedOutcomes(Vec<(QueueAction, Dialect, Outcome)>);

impl SharedOutcomes {
    /// As nothing was read yet.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// As [`of`], of the state that this disposition has.
    pub(crate) fn of(
        &mut self,
        action: QueueAction,
        dialect: Dialect,
        state: Option<&DeliveryState>,
    ) -> Outcome {
        if action == QueueAction::Complete {
            return Outcome::Complete;
        }
        let known = self.0.iter().find(|(known, of, _)| (*known, *of) == (action, dialect));
        if let Some((_, _, outcome)) = known {
            return outcome.clone();
        }
        let outcome = of(action, dialect, state);
        self.0.push((action, dialect, outcome.clone()));
        outcome
    }
}

/// Outcome for the core of an action.
fn of(action: QueueAction, dialect: Dialect, state: Option<&DeliveryState>) -> Outcome {
    match action {
        QueueAction::Complete => Outcome::Complete,
        QueueAction::Nothing => Outcome::Release(Properties::default()),
        QueueAction::Release => Outcome::Release(modified(dialect, state)),
        QueueAction::Abandon => Outcome::Abandon(modified(dialect, state)),
        QueueAction::Defer => Outcome::Defer(modified(dialect, state)),
        QueueAction::DeadLetter => Outcome::DeadLetter(match state {
            Some(DeliveryState::Rejected(error)) => {
                error.as_deref().map_or_else(Properties::default, rejected)
            }
            _ => reasons(
                "UndeliverableHere",
                "The receiver declared that the message cannot be delivered to it.",
            ),
        }),
    }
}

/// Dead-letter reason of a message that is larger than its receiver takes.
pub(crate) fn too_large() -> Properties {
    reasons("MessageSizeExceeded", "The message is larger than the receiver accepts.")
}

fn reasons(reason: &str, description: &str) -> Properties {
    Properties(vec![text(REASON, reason), text(DESCRIPTION, description)].into())
}

/// The properties of `modified`: Service Bus means application properties by what AMQP calls annotations.
fn modified(dialect: Dialect, state: Option<&DeliveryState>) -> Properties {
    let Some(DeliveryState::Modified(modified)) = state else { return Properties::default() };
    let annotations = modified.message_annotations.as_ref();
    annotations.map_or_else(Properties::default, |map| properties(map, dialect))
}

/// Reason, description and properties of `rejected`. A condition of the client's own is the reason where
/// `info` has none.
fn rejected(error: &Error) -> Properties {
    let mut found = error.info.as_ref().map(|info| properties(info, Dialect::ServiceBus)).unwrap_or_default();
    let has = |found: &Properties, name: &str| found.0.iter().any(|(known, _)| &**known == name);
    if !has(&found, REASON) && error.condition != DEAD_LETTER {
        found.0.push(text(REASON, &error.condition));
    }
    if !has(&found, DESCRIPTION)
        && let Some(description) = &error.description
    {
        found.0.push(text(DESCRIPTION, description));
    }
    found
}

/// The entries of a map as properties. A reason or description that is null is none. Of a map that is larger than the core
/// takes, the entries behind the first too many are left out: the core keeps nothing of it but reason and description.
pub(crate) fn properties(map: &RawMap, dialect: Dialect) -> Properties {
    let mut bytes = 0;
    let entries = map.iter().filter_map(|(name, value)| {
        let kept = matches!(name.as_str(), Some(REASON | DESCRIPTION));
        if bytes > PROPERTIES_BYTES_MAX && !kept {
            return None;
        }
        let taken = match value.as_str() {
            Some(text) if kept => text.len().min(TEXT_CHARS_MAX * char::MAX.len_utf8()),
            _ => value.bytes().len(),
        };
        bytes += RECORDED_BYTES + name.as_str().map_or(0, str::len) + taken;
        let name = cut(name.as_str()?.trim_start_matches([ANNOTATION, SYSTEM]), CUT_BYTES);
        Some(match (name, dialect) {
            (REASON | DESCRIPTION, _) if value.is_null() => return None,
            (REASON | DESCRIPTION, _) if value.as_str().is_some() => text(name, value.as_str()?),
            (_, Dialect::ServiceBus) => (name.into(), encoded(value)),
            (_, Dialect::Plain) => (format!("{ANNOTATION}{name}").into(), encoded(value)),
        })
    });
    Properties(entries.collect())
}

/// A name or value that is too large as a whole is as much so when it is cut, and the core keeps neither.
fn encoded(value: RawValue<'_>) -> PropertyValue {
    let bytes = value.bytes();
    PropertyValue::Encoded(Bytes::copy_from_slice(bytes.get(..CUT_BYTES).unwrap_or(bytes)))
}

/// Bytes of a recorded property beside its name and value.
const RECORDED_BYTES: usize = 9;
/// Length to which a name or value is cut: more than all properties may have, whichever character ends there.
const CUT_BYTES: usize = PROPERTIES_BYTES_MAX + 4;

/// A text of bounded length.
pub(crate) fn text(name: &str, value: &str) -> (Box<str>, PropertyValue) {
    let value = match value.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => value.get(..end).unwrap_or_default(),
        None => value,
    };
    (name.into(), PropertyValue::Text(value.into()))
}

/// The condition by which Service Bus clients say that they mean dead-lettering.
const DEAD_LETTER: &str = "com.microsoft:dead-letter";

#[cfg(test)]
mod tests;
