//! AMQP addresses: an entity, its management node, or `$cbs`.
//!
//! All dialects share the forms (`docs/features/plain-amqp.md`): a full URI, a leading slash, RabbitMQ's
//! `/queues/NAME`, a prefix that names the kind of the node, or the bare name. To a plain client a bare name is text, in which nothing
//! is decoded; to one of Service Bus it is the path of a URI (decision 56).
//!
//! Invariant: two spellings of one entity give the same path but for ASCII case, and parsing never panics.

mod forms;
pub(crate) mod prefixes;

use std::borrow::Cow;

use broker_core::{
    EntityPath, NameError, NodeKind, SubQueue, check_name_text, is_dynamic_name, is_service_bus_name,
};

use self::{
    forms::{EXCHANGES, QUEUES, is_of_rabbit, path_of_any_uri, uri_path},
    prefixes::AddressPrefixes,
};
use crate::dialect::Dialect;

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
        match AddressSyntax::SERVICE_BUS.parse(address) {
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
    /// No entity can have this name.
    #[error("{0}")]
    Name(NameError),
    /// A node that takes no messages.
    #[error("the address names a node that takes no messages")]
    NotAQueue,
}

/// Syntax of the addresses of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressSyntax<'a> {
    dialect: Dialect,
    /// Those of plain clients; Service Bus has the built-in ones.
    prefixes: Option<&'a AddressPrefixes>,
}

impl AddressSyntax<'static> {
    /// That of Service Bus.
    pub(crate) const SERVICE_BUS: Self = Self { dialect: Dialect::ServiceBus, prefixes: None };
}

impl<'a> AddressSyntax<'a> {
    /// That of a dialect, with these prefixes for plain clients.
    pub(crate) const fn of(dialect: Dialect, prefixes: &'a AddressPrefixes) -> Self {
        match dialect {
            Dialect::ServiceBus => AddressSyntax::SERVICE_BUS,
            Dialect::Plain => Self { dialect, prefixes: Some(prefixes) },
        }
    }

    fn prefixes(self) -> &'a AddressPrefixes {
        self.prefixes.unwrap_or_else(|| AddressPrefixes::built_in())
    }

    fn is_uri(self, address: &str) -> bool {
        self.dialect == Dialect::Plain && uri_path(address).is_some()
    }

    /// The kind that an address names by a prefix.
    pub(crate) fn kind(self, address: &str) -> Option<NodeKind> {
        if is_of_rabbit(address) || self.is_uri(address) {
            return None;
        }
        self.prefixes().split(address)?.0.kind
    }

    /// Reads an address.
    pub(crate) fn parse(self, address: &str) -> Result<Node, AddressError> {
        let node = self.node(address)?;
        if self.dialect == Dialect::Plain
            && let Node::Entity(path) | Node::Management(path) = &node
        {
            check_name_text(&path.entity).map_err(AddressError::Name)?;
        }
        Ok(node)
    }

    fn node(self, address: &str) -> Result<Node, AddressError> {
        if let Some(name) = address.strip_prefix(QUEUES) {
            return named(&decode(name).ok_or(AddressError::BadEscape)??);
        }
        if address.starts_with(EXCHANGES) {
            return Err(AddressError::Exchange);
        }
        if self.is_uri(address) {
            return decoded(uri_path(address).unwrap_or_default());
        }
        match (self.prefixes().split(address), self.dialect) {
            (Some((_, name)), Dialect::Plain) => named(name),
            (None, Dialect::Plain) => named(address),
            (Some((prefix, name)), Dialect::ServiceBus) if !prefix.is_part_of_name => decoded(name),
            (_, Dialect::ServiceBus) => decoded(path_of_any_uri(address)),
        }
    }

    /// Whether a client may mean this entity by this address. A client of Service Bus names only what the cloud can, or writes an
    /// address as RabbitMQ does, as no SDK would.
    pub(crate) fn may_name(self, address: &str, entity: &str) -> bool {
        self.dialect == Dialect::Plain
            || address.starts_with(QUEUES)
            || is_service_bus_name(entity)
            || is_dynamic_name(entity)
    }
}

/// Reads the path of a URI. A stray `%` belongs to it.
fn decoded(path: &str) -> Result<Node, AddressError> {
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
