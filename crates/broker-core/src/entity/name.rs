//! Names of entities (`docs/features/queues.md`, "Names").
//!
//! Two sets of names: those that Service Bus can spell, and any text that a client of plain AMQP may have as an address (decision 56).
//! The first is a part of the second, and subscriptions have names of the first alone.
//!
//! Invariant: two names that differ only in ASCII case have the same key.

/// The first letters of the names of subscriptions that are made for subscribers.
pub(crate) const OWN_PREFIX: &str = "amqp-";

/// Most bytes in the name of a queue or topic: four for each of 256 characters.
pub const NAME_BYTES_MAX: usize = 1_024;

/// Most characters in the name of a queue or topic that Service Bus can spell.
const SERVICE_BUS_CHARS_MAX: usize = 260;

/// Names that a request can be about.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NameScope {
    /// Those that Service Bus can spell.
    #[default]
    ServiceBus,
    /// Those of all entities.
    All,
}

impl NameScope {
    /// Whether an entity of this name is in the scope. A subscription is where its topic is.
    pub fn includes(self, name: &str) -> bool {
        match self {
            Self::ServiceBus => is_service_bus_name(name),
            Self::All => true,
        }
    }
}

/// Reason why a text cannot be the name of a queue or topic.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    #[error("the name is empty")]
    Empty,
    /// Records, log lines and metrics have a name as a whole.
    #[error("the name has {0} bytes of UTF-8, at most {NAME_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// It would break or rearrange the line of a log or table, or has no place in XML.
    #[error("the name has the character U+{:04X}, which cannot be in a name", u32::from(*.0))]
    Character(char),
    /// Addresses are read without the slashes at their ends.
    #[error("the name has a `/` in front or behind")]
    OuterSlash,
    /// `$DeadLetterQueue` and its like are nodes of the broker.
    #[error("a part of the name begins with `$`, as only nodes of the broker do")]
    Reserved,
    /// It would be both an entity of its own and a part of a topic.
    #[error("the name is that of a topic's subscription")]
    Subscription,
}

/// Checks that the characters of a text can be in a name, and their number: UTF-8 without control characters, line separators, controls of
/// the direction of writing, and what XML 1.0 has no place for.
pub fn check_name_text(text: &str) -> Result<(), NameError> {
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    text.chars().find(|letter| is_unusable(*letter)).map_or(Ok(()), |found| Err(NameError::Character(found)))
}

/// Checks that a queue or topic can have this name.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    check_name_text(name)?;
    if name.starts_with('/') || name.ends_with('/') {
        return Err(NameError::OuterSlash);
    }
    if name.split('/').any(|segment| segment.starts_with('$')) {
        return Err(NameError::Reserved);
    }
    if split_subscription(name).is_some() { Err(NameError::Subscription) } else { Ok(()) }
}

/// Whether a character is in no name.
fn is_unusable(letter: char) -> bool {
    match letter {
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => true,
        _ => letter.is_control(),
    }
}

/// Whether Service Bus can spell the name of an entity, of a subscription with that of its topic in front.
pub fn is_service_bus_name(name: &str) -> bool {
    match split_subscription(name) {
        Some((topic, own)) => is_valid(topic) && is_valid_subscription(own),
        None => is_valid(name),
    }
}

/// Whether Service Bus can spell the name of a queue or topic: letters, digits, `.`, `-`, `_`, `~` in segments parted by `/`; a letter or
/// digit in front, no dot behind; no empty segment; at most 260 characters. The service's documents want a letter or
/// digit behind too, and know no `~`, but it takes both: frameworks name topics so
/// (`MassTransit/Fault--Orders/Taken--`).
fn is_valid(name: &str) -> bool {
    let ends = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && !name.ends_with(['.', '/']);
    let middle = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~' | '/');
    ends && name.len() <= SERVICE_BUS_CHARS_MAX && name.chars().all(middle) && !name.contains("//")
}

/// The segment between a topic's name and its subscription's.
const SUBSCRIPTIONS: &str = "/subscriptions/";
/// Most characters in the name of a subscription.
const SUBSCRIPTION_CHARS_MAX: usize = 50;

/// The topic and the subscription that `topic/Subscriptions/name` names. The segment between them is known in any
/// case; a subscription's own name has no segments.
pub fn split_subscription(name: &str) -> Option<(&str, &str)> {
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
