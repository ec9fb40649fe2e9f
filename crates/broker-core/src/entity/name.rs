//! Names of entities (`docs/features/queues.md`, "Names").
//!
//! Invariant: two names that differ only in ASCII case have the same key.

/// The first letters of the names of subscriptions that are made for subscribers.
pub(crate) const OWN_PREFIX: &str = "amqp-";

/// Most characters in the name of a queue or topic.
const NAME_CHARS_MAX: usize = 260;

/// Whether an entity can have this name: letters, digits, `.`, `-`, `_`, `~` in segments parted by `/`; a letter or
/// digit in front, no dot behind; no empty segment; at most 260 characters. The service's documents want a letter or
/// digit behind too, and know no `~`, but it takes both: frameworks name topics so
/// (`MassTransit/Fault--Orders/Taken--`).
pub(crate) fn is_valid(name: &str) -> bool {
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.ends_with(['.', '/']);
    let middle = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '/');
    ends && name.len() <= NAME_CHARS_MAX && name.chars().all(middle) && !name.contains("//")
}

/// The segment between a topic's name and its subscription's.
const SUBSCRIPTIONS: &str = "/subscriptions/";
/// Most characters in the name of a subscription.
const SUBSCRIPTION_CHARS_MAX: usize = 50;

/// The topic and the subscription that `topic/Subscriptions/name` names. The segment between them is known in any
/// case; a subscription's own name has no segments.
pub(crate) fn split_subscription(name: &str) -> Option<(&str, &str)> {
    let at = key(name).rfind(SUBSCRIPTIONS)?;
    let (topic, rest) = name.split_at_checked(at)?;
    let own = rest.get(SUBSCRIPTIONS.len()..)?;
    (!own.contains('/')).then_some((topic, own))
}

/// Whether a subscription can have this name of its own.
pub(crate) fn is_valid_subscription(own: &str) -> bool {
    is_valid(own) && own.len() <= SUBSCRIPTION_CHARS_MAX && !own.contains('/')
}

/// The subscription's whole name.
pub(crate) fn subscription(topic: &str, own: &str) -> Box<str> {
    format!("{topic}/Subscriptions/{own}").into()
}

/// Prefix of the keys of a topic's subscriptions.
pub(crate) fn subscriptions_key(topic: &str) -> String {
    format!("{}{SUBSCRIPTIONS}", key(topic))
}

/// Key by which names are compared: their lower-case form.
pub(crate) fn key(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

#[cfg(test)]
mod tests;
