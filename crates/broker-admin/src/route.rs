//! Routes: the resource that the path of a request names.
//!
//! Invariant: two spellings of a path that differ in the case of its fixed words, in slashes at its ends or in
//! escapes give the same route.

use broker_core::{EntityKind, NameScope, split_subscription};
use percent_encoding::percent_decode_str;

/// Resource that a path names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Route {
    /// `/$namespaceinfo`.
    Namespace,
    /// `/$Resources/queues` or `/$Resources/topics`.
    List(EntityKind),
    /// A queue or topic; which of them, the description says.
    Entity(Box<str>),
    /// All subscriptions of a topic.
    Subscriptions(Box<str>),
    /// One subscription: `topic/Subscriptions/name`.
    Subscription(Box<str>),
    /// All rules of a subscription.
    Rules(Box<str>),
    /// One rule: its subscription and its name.
    Rule(Box<str>, Box<str>),
}

/// Reason why a path names no resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RouteError {
    /// The decoded bytes are no text.
    #[error("the path is not UTF-8")]
    NotText,
    /// Nothing of ours has such a path.
    #[error("no operation has this path")]
    Unknown,
}

impl Route {
    /// Reads the path of a request about entities of this scope, still percent-encoded.
    pub fn parse(path: &str, names: NameScope) -> Result<Self, RouteError> {
        let path = percent_decode_str(path).decode_utf8().map_err(|_| RouteError::NotText)?;
        let path = path.trim_matches('/');
        let lower = path.to_ascii_lowercase();
        match &*lower {
            "" | "$resources" => return Err(RouteError::Unknown),
            "$namespaceinfo" => return Ok(Self::Namespace),
            "$resources/queues" => return Ok(Self::List(EntityKind::Queue)),
            "$resources/topics" => return Ok(Self::List(EntityKind::Topic)),
            // No entity can have this name: a query of its existence is answered so.
            name if name.starts_with('$') && !name.contains('/') => return Ok(Self::Entity(path.into())),
            _ => {}
        }
        if lower.split('/').any(|segment| {
            segment.is_empty() && names == NameScope::ServiceBus
                || segment.starts_with('$') && segment != "$default"
        }) {
            return Err(RouteError::Unknown);
        }
        Self::below_topic(path).map_or_else(|| Ok(Self::Entity(path.into())), Ok)
    }

    /// Reads a path with `Subscriptions` in it.
    fn below_topic(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.split('/').collect();
        let at = segments.iter().position(|segment| segment.eq_ignore_ascii_case("subscriptions"))?;
        let topic = segments.get(..at).filter(|topic| !topic.is_empty())?.join("/");
        let is_rules = |segment: &str| segment.eq_ignore_ascii_case("rules");
        let whole = |own: &str| Box::from(format!("{topic}/Subscriptions/{own}"));
        match segments.get(at + 1..)? {
            [] => Some(Self::Subscriptions(topic.into())),
            [own] => Some(Self::Subscription(whole(own))),
            [own, rules] if is_rules(rules) => Some(Self::Rules(whole(own))),
            [own, rules, rule] if is_rules(rules) => Some(Self::Rule(whole(own), (*rule).into())),
            _ => None,
        }
    }

    /// The queue or topic that it is about, or whose parts; `None`: it is about the namespace.
    pub(crate) fn entity(&self) -> Option<&str> {
        match self {
            Self::Namespace | Self::List(_) => None,
            Self::Entity(name) | Self::Subscriptions(name) => Some(name),
            Self::Subscription(name) | Self::Rules(name) | Self::Rule(name, _) => {
                Some(split_subscription(name).map_or(name, |(topic, _)| topic))
            }
        }
    }

    /// The place for which a request needs the right to manage: its path. Clients sign tokens for the whole namespace
    /// or for the very path that they ask for.
    pub fn resource(&self) -> String {
        match self {
            Self::Namespace => "$namespaceinfo".to_owned(),
            Self::List(EntityKind::Topic) => "$Resources/topics".to_owned(),
            Self::List(_) => "$Resources/queues".to_owned(),
            Self::Entity(name) | Self::Subscription(name) => name.to_string(),
            Self::Subscriptions(topic) => format!("{topic}/Subscriptions"),
            Self::Rules(subscription) => format!("{subscription}/Rules"),
            Self::Rule(subscription, name) => format!("{subscription}/Rules/{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
