//! Attach requests: the target of a link, its settle modes, and the attach that answers it.
//!
//! Invariant: what is wanted depends on the attach alone. The answer has the peer's own source and target, but for what is not
//! granted.

use amqp_codec::{
    performative::{Address, Attach, Source, Target},
    raw::{AnnotationValue, RawMap},
    types::{Role, SenderSettleMode},
};
use amqp_engine::AttachReply;
use broker_core::{EntityPath, ReceiveMode, UnsettledPolicy};

use super::granted;
use crate::{
    address::{AddressError, AddressSyntax, Node, NodeName},
    condition::Refusal,
    dialect::Dialect,
    disposition::rules::WireOutcome,
};

/// `max-message-size` of a link without a limit, in the form in which Azure Service Bus says it.
pub(super) const UNBOUNDED: u64 = u64::MAX;
/// Largest batch that a client is told to make, in bytes, however large one message may be.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";
const REJECTED: &str = "amqp:rejected:list";

/// Target of a link.
pub(crate) enum LinkTarget {
    Send(Option<EntityPath>),
    Receive(EntityPath),
    Request(NodeName),
    Reply(NodeName),
    Coordinate,
    SubscriptionLookup,
    /// A node that the attach asks for, and a link to it.
    Dynamic,
}

/// Target of a link on which the peer sends.
pub(crate) fn requested_target(attach: &Attach, syntax: AddressSyntax<'_>) -> Result<LinkTarget, Refusal> {
    let target = match &attach.target {
        Some(Target::Terminus(target)) => target,
        Some(Target::Coordinator { .. }) => return Ok(LinkTarget::Coordinate),
        None => return Err(Refusal::NoTarget),
    };
    if target.dynamic {
        return Ok(LinkTarget::Dynamic);
    }
    let Some(address) = &target.address else { return Ok(LinkTarget::Send(None)) };
    Ok(match parse(address, "target", syntax)? {
        Node::Entity(path) => LinkTarget::Send(Some(path)),
        Node::Management(path) => LinkTarget::Request(NodeName::Management(path)),
        Node::Cbs => LinkTarget::Request(NodeName::Cbs),
    })
}

/// Target of a link on which the peer receives.
pub(crate) fn requested_source(attach: &Attach, syntax: AddressSyntax<'_>) -> Result<LinkTarget, Refusal> {
    let Some(source) = &attach.source else {
        // Clients look a durable subscription up with a null source before they delete it.
        return Ok(LinkTarget::SubscriptionLookup);
    };
    if source.dynamic {
        return Ok(LinkTarget::Dynamic);
    }
    let address = source.address.as_ref().ok_or(Refusal::NoAddress { terminus: "source" })?;
    Ok(match parse(address, "source", syntax)? {
        Node::Entity(path) => LinkTarget::Receive(path),
        Node::Management(path) => LinkTarget::Reply(NodeName::Management(path)),
        Node::Cbs => LinkTarget::Reply(NodeName::Cbs),
    })
}

fn parse(address: &Address, terminus: &'static str, syntax: AddressSyntax<'_>) -> Result<Node, Refusal> {
    let address = address.as_str().ok_or(Refusal::NoAddress { terminus })?;
    syntax.parse(address).map_err(|error| Refusal::Address { address: address.to_owned(), error })
}

/// Final destination of messages that are sent via the link's target.
pub(crate) fn transfer_destination(attach: &Attach) -> Result<Option<EntityPath>, Refusal> {
    let properties = attach.properties.as_ref();
    let Some(address) = properties.and_then(|properties| properties.get(TRANSFER_DESTINATION)) else {
        return Ok(None);
    };
    let Some(address) = address.as_str() else {
        return Err(Refusal::NoAddress { terminus: "transfer destination" });
    };
    let bad = |error| Refusal::Address { address: address.to_owned(), error };
    // Only clients of Service Bus have the property.
    match AddressSyntax::SERVICE_BUS.parse(address).map_err(bad)? {
        Node::Entity(path) => Ok(Some(path)),
        Node::Management(_) | Node::Cbs => Err(bad(AddressError::NotAQueue)),
    }
}

/// Whether a sending peer understands `rejected`.
pub(crate) fn takes_rejected(attach: &Attach) -> bool {
    attach.source.as_ref().is_none_or(|source| {
        source.outcomes.is_empty() || source.outcomes.iter().any(|outcome| outcome == REJECTED)
    })
}

/// The address of the broker's terminus.
pub(super) fn broker_address(attach: &Attach) -> Option<&str> {
    let address = match (attach.role, &attach.source, &attach.target) {
        (Role::Receiver, Some(source), _) => source.address.as_ref(),
        (Role::Sender, _, Some(Target::Terminus(target))) => target.address.as_ref(),
        _ => None,
    };
    address?.as_str()
}

/// The address of the peer's own terminus on a link it receives on.
pub(crate) fn target_address(attach: &Attach) -> Option<&str> {
    match &attach.target {
        Some(Target::Terminus(target)) => target.address.as_ref()?.as_str(),
        _ => None,
    }
}

/// Receive mode of a consumer. Service Bus clients state it by the settle modes alone.
pub(crate) fn receive_mode(mode: SenderSettleMode, source: Option<&Source>) -> ReceiveMode {
    let distribution = source.and_then(|source| source.distribution_mode.as_ref());
    if distribution.is_some_and(|mode| mode == "copy") {
        ReceiveMode::Browse
    } else if mode == SenderSettleMode::Settled {
        ReceiveMode::ReceiveAndDelete
    } else {
        ReceiveMode::PeekLock
    }
}

/// Fate of the locks when the link ends.
pub(crate) fn unsettled_policy(dialect: Dialect, default_outcome: Option<WireOutcome>) -> UnsettledPolicy {
    match (dialect, default_outcome) {
        (Dialect::ServiceBus, _) => UnsettledPolicy::KeepLocks,
        (Dialect::Plain, Some(WireOutcome::Modified { delivery_failed: Some(true), .. })) => {
            UnsettledPolicy::Fail
        }
        (Dialect::Plain, _) => UnsettledPolicy::Release,
    }
}

pub(crate) fn has_service_bus_property(attach: &Attach) -> bool {
    attach.properties.as_ref().is_some_and(|properties| {
        properties
            .iter()
            .any(|(name, _)| name.as_str().is_some_and(|name| name.starts_with("com.microsoft:")))
    })
}

/// The attach that answers one of the peer's; a filter that is in force is still to be put in.
pub(super) fn reply_to(attach: &Attach, max_message_bytes: u64, dialect: Dialect) -> AttachReply {
    let properties = (dialect == Dialect::ServiceBus && attach.role == Role::Sender).then(|| {
        RawMap::with_symbol_keys(&[(
            BATCH_SIZE,
            AnnotationValue::Ulong(max_message_bytes.min(BATCH_BYTES_MAX)),
        )])
    });
    // The limit is one of what the broker accepts. What it sends has no bound: a stored message grows by what the
    // broker adds, and Microsoft.Azure.Amqp closes a link on which a message exceeds this field.
    let max_message_size = if attach.role == Role::Receiver { UNBOUNDED } else { max_message_bytes };
    AttachReply {
        source: granted::source(attach, false),
        target: granted::target(attach),
        max_message_size: Some(max_message_size),
        // The SDKs for Service Bus ask for mode second and wait for a settled answer.
        settles_second: dialect == Dialect::Plain,
        offered_capabilities: granted::capabilities(attach, dialect),
        properties,
        ..AttachReply::default()
    }
}
