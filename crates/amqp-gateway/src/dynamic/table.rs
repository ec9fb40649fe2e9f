//! The dynamic nodes of one connection, and the links that asked for them.
//!
//! Invariant: a node is in the table from its request until the core has refused or deleted it, and counts for the broker as
//! long. A link is the creator of one node at most.

use std::collections::BTreeMap;

use amqp_codec::types::Role;
use broker_core::{LinkId, is_dynamic_name};

use super::pool::DynamicNodePermit;

/// The dynamic nodes of one connection.
#[derive(Debug, Default)]
pub(crate) struct DynamicNodeTable {
    /// By name.
    nodes: BTreeMap<Box<str>, OwnedNode>,
    /// By the link that asked for it, where that is attached.
    by_creator: BTreeMap<LinkId, Box<str>>,
    /// Number of nodes that were asked for.
    requested: u64,
}

#[derive(Debug)]
struct OwnedNode {
    /// Name and direction of the link that asked for it.
    creator: (Box<str>, Role),
    /// The core has opened the link, so the node is there.
    is_open: bool,
    permit: DynamicNodePermit,
}

impl DynamicNodeTable {
    /// The number of the next node.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.requested += 1;
        self.requested
    }

    /// Number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A link asks for a node.
    pub(crate) fn insert(
        &mut self,
        node: Box<str>,
        link: LinkId,
        creator: (Box<str>, Role),
        permit: DynamicNodePermit,
    ) {
        self.by_creator.insert(link, node.clone());
        self.nodes.insert(node, OwnedNode { creator, is_open: false, permit });
    }

    /// Whether an entity is a node of this connection.
    pub(crate) fn owns(&self, entity: &str) -> bool {
        is_dynamic_name(entity) && self.nodes.contains_key(entity.to_ascii_lowercase().as_str())
    }

    /// A link attaches to an entity: the link that asked for a node, and was detached, may be back.
    pub(crate) fn on_attach(&mut self, entity: &str, link: LinkId, name: &str, role: Role) {
        if !is_dynamic_name(entity) {
            return;
        }
        let key = entity.to_ascii_lowercase().into_boxed_str();
        let is_creator =
            self.nodes.get(&key).is_some_and(|node| *node.creator.0 == *name && node.creator.1 == role);
        if is_creator && !self.by_creator.values().any(|node| *node == key) {
            self.by_creator.insert(link, key);
        }
    }

    /// The core has opened a link.
    pub(crate) fn on_opened(&mut self, link: LinkId) {
        if let Some(node) = self.by_creator.get(&link).and_then(|node| self.nodes.get_mut(node))
            && !std::mem::replace(&mut node.is_open, true)
        {
            node.permit.note_created();
        }
    }

    /// The core has refused a link, and with it the node that the link asked for.
    pub(crate) fn on_refused(&mut self, link: LinkId) {
        if let Some(node) = self.by_creator.remove(&link)
            && self.nodes.get(&node).is_some_and(|node| !node.is_open)
        {
            self.nodes.remove(&node);
        }
    }

    /// A link is detached. Gives the node that it asked for.
    pub(crate) fn on_detached(&mut self, link: LinkId) -> Option<Box<str>> {
        self.by_creator.remove(&link)
    }

    /// The core has deleted a node.
    pub(crate) fn remove(&mut self, node: &str) {
        if self.nodes.remove(node).is_some() {
            self.by_creator.retain(|_, created| **created != *node);
        }
    }
}
