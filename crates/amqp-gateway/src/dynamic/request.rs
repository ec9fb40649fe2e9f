//! The request for a dynamic node in an attach, and the attach that says what is granted.
//!
//! Invariant: what is granted is what the broker does: the answer names no other property of the node and no other capability.

use amqp_codec::{
    performative::{Address, Attach, Source, Target, TargetTerminus},
    raw::{RawMap, RawValue},
    types::{Descriptor, Role, Symbol, TypeKind, write_map, write_symbol},
};
use broker_core::{DynamicNode, EntityKind, LifetimePolicy, NodeKind};
use bytes::BytesMut;

use super::refusal::{DISTRIBUTION_MODES_MAX, DynamicRefusal};
use crate::{address::AddressSyntax, condition::Refusal, link::requested_kind};

const LIFETIME_POLICY: &str = "lifetime-policy";
const DISTRIBUTION_MODES: &str = "supported-dist-modes";
/// Descriptors of the policies, in the order of [`LifetimePolicy::ALL`] (messaging 3.5.10 to 3.5.13).
const POLICIES: [(u64, &str); 4] = [
    (0x2b, "amqp:delete-on-close:list"),
    (0x2c, "amqp:delete-on-no-links:list"),
    (0x2d, "amqp:delete-on-no-messages:list"),
    (0x2e, "amqp:delete-on-no-links-or-messages:list"),
];
/// [`LifetimePolicy::OnClose`] as a value.
const ON_CLOSE: [u8; 4] = [0x00, 0x53, 0x2b, 0x45];
/// No link is resumed (decision 21), so the state of the terminus ends with the detach.
const LINK_DETACH: &str = "link-detach";

/// A node that an attach asks for.
#[derive(Debug)]
pub(crate) struct DynamicRequest {
    pub(crate) kind: EntityKind,
    pub(crate) lifetime: LifetimePolicy,
}

impl DynamicRequest {
    /// Reads the terminus at which the peer wants a node: the target where it sends, else the source.
    pub(crate) fn of(attach: &Attach) -> Result<Self, Refusal> {
        let (address, properties) = match (attach.role, &attach.source, &attach.target) {
            (Role::Receiver, Some(source), _) => (&source.address, &source.dynamic_node_properties),
            (Role::Sender, _, Some(Target::Terminus(target))) => {
                (&target.address, &target.dynamic_node_properties)
            }
            _ => (&None, &None),
        };
        // Clients write an empty text for a null.
        if address.as_ref().is_some_and(|address| address.as_str() != Some("")) {
            return Err(Refusal::Dynamic(DynamicRefusal::Address));
        }
        let lifetime = lifetime(properties.as_ref()).map_err(Refusal::Dynamic)?;
        check_distribution_modes(properties.as_ref()).map_err(Refusal::Dynamic)?;
        let kind =
            requested_kind::of_attach(attach, attach.role == Role::Sender, AddressSyntax::SERVICE_BUS)?;
        Ok(Self { kind: kind.map_or(EntityKind::Queue, NodeKind::entity), lifetime })
    }

    /// The node, with 128 bits of chance for its name.
    pub(crate) fn node(&self, chance: u128) -> DynamicNode {
        match self.kind {
            EntityKind::Topic => DynamicNode::topic(chance, self.lifetime),
            EntityKind::Queue | EntityKind::Subscription => DynamicNode::queue(chance, self.lifetime),
        }
    }

    /// Writes what is granted into the attach, whose termini the answer repeats.
    pub(crate) fn grant(&self, attach: &mut Attach, address: &str) {
        match attach.role {
            Role::Receiver => {
                let source = attach.source.take().unwrap_or_default();
                attach.source = Some(Source {
                    durable: 0,
                    expiry_policy: Some(Symbol::from_static(LINK_DETACH)),
                    timeout: 0,
                    dynamic_node_properties: Some(granted(source.dynamic_node_properties.as_ref())),
                    capabilities: self.granted_capabilities(&source.capabilities),
                    ..source.with_dynamic_address(Address::from(address))
                });
            }
            Role::Sender => {
                let target = match attach.target.take() {
                    Some(Target::Terminus(target)) => target,
                    _ => TargetTerminus::default(),
                };
                attach.target = Some(Target::Terminus(TargetTerminus {
                    durable: 0,
                    expiry_policy: Some(Symbol::from_static(LINK_DETACH)),
                    timeout: 0,
                    dynamic_node_properties: Some(granted(target.dynamic_node_properties.as_ref())),
                    capabilities: self.granted_capabilities(&target.capabilities),
                    ..target.with_dynamic_address(Address::from(address))
                }));
            }
        }
    }

    /// The capabilities that say the kind of the node: as the peer named it, or else by our own word.
    fn granted_capabilities(&self, asked: &[Symbol]) -> Vec<Symbol> {
        let granted: Vec<Symbol> =
            asked.iter().filter(|it| requested_kind::is_capability(it)).cloned().collect();
        let own = if self.kind == EntityKind::Topic { "temporary-topic" } else { "temporary-queue" };
        if granted.is_empty() { vec![Symbol::from_static(own)] } else { granted }
    }
}

/// The policy that the properties name; without one the node lives as long as its link (messaging 3.5.9).
fn lifetime(properties: Option<&RawMap>) -> Result<LifetimePolicy, DynamicRefusal> {
    let Some(value) = asked_policy(properties) else { return Ok(LifetimePolicy::OnClose) };
    let named = value.described().and_then(|(descriptor, _)| {
        POLICIES.into_iter().zip(LifetimePolicy::ALL).find(|((code, name), _)| match descriptor {
            Descriptor::Code(found) => found == *code,
            Descriptor::Name(found) => found == *name,
        })
    });
    named.map(|(_, policy)| policy).ok_or(DynamicRefusal::Lifetime)
}

fn asked_policy(properties: Option<&RawMap>) -> Option<RawValue<'_>> {
    properties?.get(LIFETIME_POLICY).filter(|value| !value.is_null())
}

/// The field is one symbol or several.
fn check_distribution_modes(properties: Option<&RawMap>) -> Result<(), DynamicRefusal> {
    let Some(modes) = properties.and_then(|properties| properties.get(DISTRIBUTION_MODES)) else {
        return Ok(());
    };
    if modes.item_count().is_some_and(|count| count > DISTRIBUTION_MODES_MAX) {
        return Err(DynamicRefusal::DistributionModes);
    }
    let are_symbols = match modes.kind() {
        Some(TypeKind::Null | TypeKind::Symbol) => true,
        Some(TypeKind::Array) => modes.to_items().is_some_and(|items| {
            items.iter().all(|item| RawValue::first(item).is_ok_and(|item| item.as_symbol().is_some()))
        }),
        Some(TypeKind::List) => {
            modes.as_list().is_some_and(|mut items| items.all(|item| item.as_symbol().is_some()))
        }
        _ => false,
    };
    if are_symbols { Ok(()) } else { Err(DynamicRefusal::DistributionModes) }
}

/// The properties of the node that are in force: the policy, in the encoding in which it came.
fn granted(asked: Option<&RawMap>) -> RawMap {
    let policy = asked_policy(asked).map_or(&ON_CLOSE[..], RawValue::bytes);
    let mut properties = BytesMut::new();
    write_map(&mut properties, 2, |out| {
        write_symbol(out, &Symbol::from_static(LIFETIME_POLICY));
        out.extend_from_slice(policy);
    });
    RawMap::new(properties.freeze()).expect("a symbol and a value that was read are a map")
}

#[cfg(test)]
mod tests;
