//! Kind of node that a client requests.
//!
//! JMS clients name it by a capability of source or target, those without a destination by an annotation of the message, SDKs of
//! Service Bus by a property of the link.
//! Others write a prefix of `ActiveMQ`'s brokers in front of the name.
//!
//! Invariant: what two of them say is either the same, or refused.

use amqp_codec::{
    performative::{Address, Attach, Target},
    types::Symbol,
};
use broker_core::{Command, NodeKind};

use crate::{address::AddressSyntax, condition::Refusal};

const ENTITY_TYPE: &str = "com.microsoft:entity-type";

/// The kind that an attach asks for; `None`: any.
pub(crate) fn of_attach(
    attach: &Attach,
    is_sender: bool,
    syntax: AddressSyntax<'_>,
) -> Result<Option<NodeKind>, Refusal> {
    let terminus = if is_sender {
        match &attach.target {
            Some(Target::Terminus(target)) => Some((&target.address, &target.capabilities)),
            _ => None,
        }
    } else {
        attach.source.as_ref().map(|source| (&source.address, &source.capabilities))
    };
    let Some((address, capabilities)) = terminus else { return Ok(None) };
    let named = capabilities.iter().filter_map(of_capability);
    let prefix = address.as_ref().and_then(Address::as_str).and_then(|address| syntax.kind(address));
    agreed(named.chain(prefix).chain(of_property(attach)))
}

/// The kind that an SDK of Service Bus names by a property of its link. A subscription (2) and a filter rule (7) have addresses that
/// nothing else has; the links of a management node have a text there.
fn of_property(attach: &Attach) -> Option<NodeKind> {
    match attach.properties.as_ref()?.get(ENTITY_TYPE)?.as_i64()? {
        0 => Some(NodeKind::Queue),
        1 => Some(NodeKind::Topic),
        _ => None,
    }
}

/// The kind that a message to the anonymous terminus asks for: by the prefix of its `to`, and by what JMS clients annotate.
pub(crate) fn of_message(
    to: &str,
    jms_destination: Option<i64>,
    syntax: AddressSyntax<'_>,
) -> Result<Option<NodeKind>, Refusal> {
    let annotated = match jms_destination {
        Some(0) => Some(NodeKind::Queue),
        Some(1) => Some(NodeKind::Topic),
        Some(2) => Some(NodeKind::TemporaryQueue),
        Some(3) => Some(NodeKind::TemporaryTopic),
        _ => None,
    };
    agreed(annotated.into_iter().chain(syntax.kind(to)))
}

/// The command, for a node of the kind that was asked for.
pub(crate) fn asking(kind: Option<NodeKind>, command: Command) -> Command {
    match kind {
        Some(kind) => Command::OfKind(kind, Box::new(command)),
        None => command,
    }
}

/// Whether this is the capability of a kind of node.
pub(crate) fn is_capability(capability: &Symbol) -> bool {
    of_capability(capability).is_some()
}

fn of_capability(capability: &Symbol) -> Option<NodeKind> {
    match capability.as_str() {
        "queue" => Some(NodeKind::Queue),
        "topic" => Some(NodeKind::Topic),
        "temporary-queue" => Some(NodeKind::TemporaryQueue),
        "temporary-topic" => Some(NodeKind::TemporaryTopic),
        _ => None,
    }
}

/// The kind that all of them name; the first one says whether it is temporary.
fn agreed(mut kinds: impl Iterator<Item = NodeKind>) -> Result<Option<NodeKind>, Refusal> {
    let Some(first) = kinds.next() else { return Ok(None) };
    if kinds.all(|other| other.entity() == first.entity()) { Ok(Some(first)) } else { Err(Refusal::TwoKinds) }
}

#[cfg(test)]
mod tests;
