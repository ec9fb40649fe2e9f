//! AMQP addresses: an entity, its management node, or `$cbs`.
//!
//! All dialects share one grammar (`docs/features/plain-amqp.md`): a full URI, a leading slash, RabbitMQ's
//! `/queues/NAME`, a prefix that names the kind of the node, or the bare name.
//!
//! Invariant: two spellings of one entity give the same path but for ASCII case, and parsing never panics.

use std::borrow::Cow;

use broker_core::{EntityPath, NodeKind, SubQueue};

/// Node that an address names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Node {
    Entity(EntityPath),
    /// The management node of a message store.
    Management(EntityPath),
    /// The node that takes tokens.
    Cbs,
}

/// Name of a node that answers requests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum NodeName {
    /// `$cbs`.
    Cbs,
    /// `<entity>/$management`.
    Management(EntityPath),
}

impl NodeName {
    /// True for the same node, without regard to ASCII case.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cbs, Self::Cbs) => true,
            (Self::Management(one), Self::Management(two)) => {
                one.sub_queue == two.sub_queue && one.entity.eq_ignore_ascii_case(&two.entity)
            }
            _ => false,
        }
    }

    /// The entity or node that error texts name.
    pub(crate) fn entity_name(&self) -> &str {
        match self {
            Self::Cbs => "$cbs",
            Self::Management(path) => &path.entity,
        }
    }

    /// True for an address of this node.
    pub(crate) fn is_named(&self, address: &str) -> bool {
        match parse(address) {
            Ok(Node::Cbs) => *self == Self::Cbs,
            Ok(Node::Management(path)) => self.is(&Self::Management(path)),
            _ => false,
        }
    }
}

/// Reason why an address names no node.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum AddressError {
    /// Nothing is left after scheme, host and slashes.
    #[error("the address is empty")]
    Empty,
    /// `%` without two hexadecimal digits after it in a `/queues/` address.
    #[error("the address has a `%` that two hexadecimal digits do not follow")]
    BadEscape,
    /// The decoded bytes are no text.
    #[error("the decoded address is not UTF-8")]
    NotUtf8,
    /// RabbitMQ's `/exchanges/…`.
    #[error("exchange addresses are not supported")]
    Exchange,
    /// A node that takes no messages.
    #[error("the address names a node that takes no messages")]
    NotAQueue,
}

/// Prefixes of addresses that name the kind of a node. `ActiveMQ` writes the first four, Artemis' manual proposes the others.
const SCHEMES: [(&str, NodeKind); 6] = [
    ("queue://", NodeKind::Queue),
    ("topic://", NodeKind::Topic),
    ("temp-queue://", NodeKind::TemporaryQueue),
    ("temp-topic://", NodeKind::TemporaryTopic),
    ("anycast://", NodeKind::Queue),
    ("multicast://", NodeKind::Topic),
];

/// Those of Artemis 1 look like the beginning of a name. They stay part of it: an entity may have been called so.
const NAME_PREFIXES: [(&str, NodeKind); 2] =
    [("jms.queue.", NodeKind::Queue), ("jms.topic.", NodeKind::Topic)];

/// The kind that an address names by a prefix.
pub(crate) fn kind(address: &str) -> Option<NodeKind> {
    let mut prefixes = SCHEMES.iter().chain(&NAME_PREFIXES);
    prefixes.find(|(prefix, _)| address.starts_with(prefix)).map(|(_, kind)| *kind)
}

/// Reads an address.
pub(crate) fn parse(address: &str) -> Result<Node, AddressError> {
    if let Some(name) = SCHEMES.iter().find_map(|(prefix, _)| address.strip_prefix(prefix)) {
        return bare(name);
    }
    if let Some(name) = address.strip_prefix("/queues/") {
        return named(&decode(name).ok_or(AddressError::BadEscape)??);
    }
    if address.starts_with("/exchanges/") {
        return Err(AddressError::Exchange);
    }
    bare(without_authority(address))
}

/// Reads a bare name. It is what the client typed: a stray `%` belongs to it.
fn bare(path: &str) -> Result<Node, AddressError> {
    match decode(path) {
        Some(decoded) => named(&decoded?),
        None => named(path),
    }
}

/// The text that identifies the entity to `broker-auth`: name, then sub-queue, then `$management`.
pub(crate) fn resource(path: &EntityPath, management: bool) -> String {
    let mut text = String::from(&*path.entity);
    match path.sub_queue {
        SubQueue::Main => {}
        SubQueue::DeadLetter => text.push_str("/$DeadLetterQueue"),
        SubQueue::TransferDeadLetter => text.push_str("/$Transfer/$DeadLetterQueue"),
    }
    if management {
        text.push_str("/$management");
    }
    text
}

/// Path of a URI, after scheme and authority; any other text unchanged.
fn without_authority(address: &str) -> &str {
    let Some((scheme, rest)) = address.split_once("://") else { return address };
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    if !is_scheme {
        return address;
    }
    rest.find('/').and_then(|slash| rest.get(slash..)).unwrap_or("")
}

/// Percent-decoding after RFC 3986 (`+` stays `+`). `None` for a broken escape.
fn decode(text: &str) -> Option<Result<Cow<'_, str>, AddressError>> {
    if !text.contains('%') {
        return Some(Ok(Cow::Borrowed(text)));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    Some(String::from_utf8(decoded).map(Cow::Owned).map_err(|_| AddressError::NotUtf8))
}

/// Reads a decoded path: trims slashes and takes the reserved segments off its end.
fn named(path: &str) -> Result<Node, AddressError> {
    let path = path.trim_matches('/');
    if path.eq_ignore_ascii_case("$cbs") {
        return Ok(Node::Cbs);
    }
    match without_suffix(path, "$management") {
        Some(entity) => Ok(Node::Management(store(entity)?)),
        None => Ok(Node::Entity(store(path)?)),
    }
}

/// Reads an entity name with or without a sub-queue behind it.
fn store(path: &str) -> Result<EntityPath, AddressError> {
    let (entity, sub_queue) = match without_suffix(path, "$DeadLetterQueue") {
        Some(entity) => match without_suffix(entity, "$Transfer") {
            Some(entity) => (entity, SubQueue::TransferDeadLetter),
            None => (entity, SubQueue::DeadLetter),
        },
        None => (path, SubQueue::Main),
    };
    if entity.is_empty() {
        return Err(AddressError::Empty);
    }
    Ok(EntityPath { entity: canonical(entity), sub_queue })
}

/// A subscription is `topic/Subscriptions/name` for the core, however the client writes the middle.
fn canonical(entity: &str) -> Box<str> {
    let mut segments = entity.rsplitn(3, '/');
    match (segments.next(), segments.next(), segments.next()) {
        (Some(name), Some(middle), Some(topic))
            if middle.eq_ignore_ascii_case(SUBSCRIPTIONS) && !topic.is_empty() && !name.is_empty() =>
        {
            format!("{topic}/{SUBSCRIPTIONS}/{name}").into()
        }
        _ => entity.into(),
    }
}

/// Path segment between a topic and its subscription.
const SUBSCRIPTIONS: &str = "Subscriptions";

/// Takes a last segment off a path, compared without regard to ASCII case.
fn without_suffix<'a>(path: &'a str, segment: &str) -> Option<&'a str> {
    let at = path.len().checked_sub(segment.len())?;
    let (before, last) = (path.get(..at)?, path.get(at..)?);
    if !last.eq_ignore_ascii_case(segment) {
        return None;
    }
    if before.is_empty() { Some(before) } else { before.strip_suffix('/') }
}

#[cfg(test)]
mod tests;
