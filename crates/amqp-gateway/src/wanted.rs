//! What the peer's attach asks for.
//!
//! Invariant: what is wanted depends on the attach alone.

use amqp_codec::{
    performative::{Address, Attach, Source, Target},
    types::SenderSettleMode,
};
use broker_core::{EntityPath, ReceiveMode, UnsettledPolicy};

use crate::{
    address::{self, Node},
    condition::Refusal,
    link::NodeName,
    settlement::{Dialect, WireOutcome},
};

const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";
const REJECTED: &str = "amqp:rejected:list";

/// What an attach asks for.
pub(crate) enum Wanted {
    Send(Option<EntityPath>),
    Receive(EntityPath),
    Request(NodeName),
    Reply(NodeName),
    Coordinate,
    Lookup,
}

/// What a sending peer's target asks for.
pub(crate) fn wanted_target(attach: &Attach) -> Result<Wanted, Refusal> {
    let target = match &attach.target {
        Some(Target::Terminus(target)) => target,
        Some(Target::Coordinator { .. }) => return Ok(Wanted::Coordinate),
        None => return Err(Refusal::NoTarget),
    };
    if target.dynamic {
        return Err(Refusal::Dynamic);
    }
    let Some(address) = &target.address else { return Ok(Wanted::Send(None)) };
    Ok(match parse(address, "target")? {
        Node::Entity(path) => Wanted::Send(Some(path)),
        Node::Management(path) => Wanted::Request(NodeName::Management(path)),
        Node::Cbs => Wanted::Request(NodeName::Cbs),
    })
}

/// What a receiving peer's source asks for.
pub(crate) fn wanted_source(attach: &Attach) -> Result<Wanted, Refusal> {
    let Some(source) = &attach.source else {
        // How clients look a durable subscription up before they delete it.
        return Ok(Wanted::Lookup);
    };
    if source.dynamic {
        return Err(Refusal::Dynamic);
    }
    let address = source.address.as_ref().ok_or(Refusal::NoAddress { terminus: "source" })?;
    Ok(match parse(address, "source")? {
        Node::Entity(path) => Wanted::Receive(path),
        Node::Management(path) => Wanted::Reply(NodeName::Management(path)),
        Node::Cbs => Wanted::Reply(NodeName::Cbs),
    })
}

fn parse(address: &Address, terminus: &'static str) -> Result<Node, Refusal> {
    let address = address.as_str().ok_or(Refusal::NoAddress { terminus })?;
    address::parse(address).map_err(|error| Refusal::Address { address: address.to_owned(), error })
}

/// Where messages go in the end that are sent through the link's target.
pub(crate) fn transfer_destination(attach: &Attach) -> Result<Option<EntityPath>, Refusal> {
    let properties = attach.properties.as_ref();
    let Some(address) = properties.and_then(|properties| properties.get(TRANSFER_DESTINATION)) else {
        return Ok(None);
    };
    let Some(address) = address.as_str() else {
        return Err(Refusal::NoAddress { terminus: "transfer destination" });
    };
    let bad = |error| Refusal::Address { address: address.to_owned(), error };
    match address::parse(address).map_err(bad)? {
        Node::Entity(path) => Ok(Some(path)),
        Node::Management(_) | Node::Cbs => Err(bad(address::AddressError::NotAQueue)),
    }
}

/// Whether a sending peer understands `rejected`.
pub(crate) fn takes_rejected(attach: &Attach) -> bool {
    attach.source.as_ref().is_none_or(|source| {
        source.outcomes.is_empty() || source.outcomes.iter().any(|outcome| outcome == REJECTED)
    })
}

/// The address of the peer's own terminus on a link it receives on.
pub(crate) fn target_address(attach: &Attach) -> Option<&str> {
    match &attach.target {
        Some(Target::Terminus(target)) => target.address.as_ref()?.as_str(),
        _ => None,
    }
}

/// How a receiver takes messages. Service Bus clients say it by the settle modes alone.
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

/// What becomes of locks when the link goes.
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
