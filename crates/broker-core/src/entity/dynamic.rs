//! Dynamic nodes: queues and topics that a connection has asked for by an attach with `dynamic` (AMQP 1.0 messaging 3.5.3,
//! 3.5.4), and their lifetime policies (3.5.10 to 3.5.13).
//!
//! Invariant: a dynamic node has one owner, the client that asked for it, for as long as it lives. A node that this table does not
//! have has no owner, so it is none or it is left over from an earlier start.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ClientId, EntityKind, QueueId};

/// Front of the names of dynamic nodes. No other entity can have such a name, so after a crash the name tells that the
/// connection of the node is gone.
pub const DYNAMIC_PREFIX: &str = "$dynamic/";

/// Whether an entity of this name is a dynamic node, or a subscription of one.
pub fn is_dynamic_name(name: &str) -> bool {
    name.get(..DYNAMIC_PREFIX.len()).is_some_and(|front| front.eq_ignore_ascii_case(DYNAMIC_PREFIX))
}

/// Condition under which a dynamic node is deleted before its connection ends. Each demands that the link that asked for the node
/// no longer exists.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LifetimePolicy {
    /// No further condition (messaging 3.5.10).
    OnClose,
    /// The node has no link (messaging 3.5.11).
    OnNoLinks,
    /// The node has no message (messaging 3.5.12).
    OnNoMessages,
    /// The node has neither (messaging 3.5.13).
    OnNoLinksOrMessages,
}

impl LifetimePolicy {
    /// All of them, in the order of their descriptors.
    pub const ALL: [Self; 4] =
        [Self::OnClose, Self::OnNoLinks, Self::OnNoMessages, Self::OnNoLinksOrMessages];

    /// Whether a node without the link that asked for it ends.
    pub(crate) const fn ends(self, has_links: bool, has_messages: bool) -> bool {
        match self {
            Self::OnClose => true,
            Self::OnNoLinks => !has_links,
            Self::OnNoMessages => !has_messages,
            Self::OnNoLinksOrMessages => !has_links && !has_messages,
        }
    }
}

/// A dynamic node that a client asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DynamicNode {
    name: Box<str>,
    /// A queue or a topic.
    pub(crate) kind: EntityKind,
    pub(crate) lifetime: LifetimePolicy,
}

impl DynamicNode {
    /// A queue whose name nobody can guess, if `chance` is random.
    pub fn queue(chance: u128, lifetime: LifetimePolicy) -> Self {
        Self::new(chance, EntityKind::Queue, lifetime)
    }

    /// The same as a topic.
    pub fn topic(chance: u128, lifetime: LifetimePolicy) -> Self {
        Self::new(chance, EntityKind::Topic, lifetime)
    }

    fn new(chance: u128, kind: EntityKind, lifetime: LifetimePolicy) -> Self {
        Self { name: format!("{DYNAMIC_PREFIX}{chance:032x}").into(), kind, lifetime }
    }

    /// The name of the entity, which is also its address.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The dynamic nodes of one namespace.
#[derive(Debug, Default)]
pub(crate) struct DynamicNodes {
    /// By main store.
    nodes: BTreeMap<QueueId, OwnedNode>,
    of_client: BTreeSet<(ClientId, QueueId)>,
    /// Those whose creating link is gone, and which wait for the other conditions of their policies.
    orphaned: BTreeSet<QueueId>,
}

#[derive(Clone, Copy, Debug)]
struct OwnedNode {
    owner: ClientId,
    lifetime: LifetimePolicy,
}

impl DynamicNodes {
    /// Takes in a node that was created for a client.
    pub(crate) fn insert(&mut self, node: QueueId, owner: ClientId, lifetime: LifetimePolicy) {
        self.nodes.insert(node, OwnedNode { owner, lifetime });
        self.of_client.insert((owner, node));
    }

    /// Forgets a node that is deleted, and tells whose it was.
    pub(crate) fn remove(&mut self, node: QueueId) -> Option<ClientId> {
        let OwnedNode { owner, .. } = self.nodes.remove(&node)?;
        self.of_client.remove(&(owner, node));
        self.orphaned.remove(&node);
        Some(owner)
    }

    /// The client that owns a node; `None`: it is no dynamic node.
    pub(crate) fn owner(&self, node: QueueId) -> Option<ClientId> {
        self.nodes.get(&node).map(|node| node.owner)
    }

    /// The nodes of a client.
    pub(crate) fn of_client(&self, client: ClientId) -> Vec<QueueId> {
        let of_client = self.of_client.range((client, QueueId(0))..=(client, QueueId(u32::MAX)));
        of_client.map(|(_, node)| *node).collect()
    }

    /// The link that asked for the node no longer exists.
    pub(crate) fn set_orphaned(&mut self, node: QueueId) {
        if self.nodes.contains_key(&node) {
            self.orphaned.insert(node);
        }
    }

    /// The policy of a node whose creating link is gone.
    pub(crate) fn policy_of_orphan(&self, node: QueueId) -> Option<LifetimePolicy> {
        self.orphaned.contains(&node).then(|| self.nodes.get(&node).map(|node| node.lifetime))?
    }

    /// Whether there is a node whose end waits for its links or messages.
    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphaned.is_empty()
    }
}
