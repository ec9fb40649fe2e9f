//! Planted faults of namespaces: records go to another namespace, a slot is free before the records of its namespace are
//! given back, and a client is shown what another namespace's client should see.
//!
//! The simulator imitates what a client would see of such a node: it publishes in the other namespace, and forges the
//! answers for the namespace that was asked; it keeps a namespace that is to be deleted, and gives it to the one that is
//! created in its place; and it gives deliveries to the client with the same number in another namespace.
//!
//! Invariant: without such a fault nothing is touched.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use broker_core::{Batch, ClientId, Command, Effect, NamespaceDefinition, NamespaceState, Timestamp};
use broker_node::{NamespaceCommand, NamespaceId, Node, Released};

use crate::plan::{PlantedFault, Topology};

/// Clients that are none publish in the name of others: they have these numbers and higher ones.
const FORGED: u64 = 1 << 40;
/// One batch, or one delivery, in so many goes astray.
const ASTRAY_EVERY: u64 = 4;

/// State of a process with such a fault.
#[derive(Debug, Default)]
pub(super) struct CrossedNamespaces {
    slots: bool,
    effects: bool,
    frees: bool,
    /// The client that really asked, by the namespace and client that was forged.
    askers: BTreeMap<(NamespaceId, ClientId), NamespaceId>,
    /// Batches and deliveries that could have gone astray.
    count: u64,
    /// Namespaces that were to be deleted and are still there.
    kept: BTreeSet<Box<str>>,
    /// Changes that are told and were not made.
    changes: VecDeque<NamespaceDefinition>,
}

impl CrossedNamespaces {
    /// Plants the fault of the plan.
    pub(super) fn plant(&mut self, topology: &Topology) {
        self.slots = !topology.is_free_of(PlantedFault::OtherSlot);
        self.effects = !topology.is_free_of(PlantedFault::OtherClient);
        self.frees = !topology.is_free_of(PlantedFault::EarlyFreeSlot);
    }

    /// Takes away what is to be published in another namespace, and publishes it there.
    pub(super) fn divert(&mut self, node: &mut Node, now: Timestamp, id: NamespaceId, batch: &mut Batch) {
        let publishes = |command: &Command| {
            matches!(
                command,
                Command::Publish { .. } | Command::PublishBatch { .. } | Command::PublishTo { .. }
            )
        };
        if !self.slots || !batch.commands.iter().any(publishes) || !self.goes_astray() {
            return;
        }
        let Some(other) = another(node, id) else { return };
        let all = std::mem::take(&mut batch.commands);
        let (commands, rest) = all.into_iter().partition(publishes);
        batch.commands = rest;
        let client = ClientId(FORGED + batch.client.0);
        self.askers.insert((other, client), id);
        node.handle_batch(now, other, Batch { client, commands });
    }

    fn goes_astray(&mut self) -> bool {
        self.count += 1;
        self.count.is_multiple_of(ASTRAY_EVERY)
    }

    /// Names the clients that are to see this.
    pub(super) fn redirect(&mut self, node: &Node, released: &mut Released) {
        if let Some(id) = self.askers.get(&(released.namespace, released.client)) {
            released.namespace = *id;
            released.client = ClientId(released.client.0 - FORGED);
        }
        let delivers = |effect: &Effect| matches!(effect, Effect::Delivery(_));
        if self.effects
            && released.effects.iter().any(delivers)
            && self.goes_astray()
            && let Some(other) = another(node, released.namespace)
        {
            released.namespace = other;
        }
    }

    /// Whether a change is told as made without being made.
    pub(super) fn keeps(&mut self, node: &Node, command: &NamespaceCommand) -> bool {
        if !self.frees {
            return false;
        }
        let (NamespaceCommand::Delete { name } | NamespaceCommand::Put { name, .. }) = command else {
            return false;
        };
        let Some(view) = node.namespaces().find(|view| view.definition.name == *name) else { return false };
        let states: &[NamespaceState] = match command {
            NamespaceCommand::Delete { .. } if self.kept.insert(name.clone()) => {
                &[NamespaceState::Deleting, NamespaceState::Deleted]
            }
            NamespaceCommand::Put { .. } if self.kept.remove(name) => &[NamespaceState::Active],
            _ => &[],
        };
        let told =
            states.iter().map(|state| NamespaceDefinition { state: *state, ..view.definition.clone() });
        self.changes.extend(told);
        !states.is_empty()
    }

    /// Changes that were not made.
    pub(super) fn take_changes(&mut self) -> VecDeque<NamespaceDefinition> {
        std::mem::take(&mut self.changes)
    }

    /// Whether this namespace is taken for one that was deleted.
    pub(super) fn is_kept(&self, name: &str) -> bool {
        self.kept.contains(name)
    }

    /// The process is gone.
    pub(super) fn forget(&mut self) {
        self.askers.clear();
        self.changes.clear();
    }
}

/// A namespace beside this one.
fn another(node: &Node, id: NamespaceId) -> Option<NamespaceId> {
    node.namespaces().map(|view| view.id).find(|other| *other != id)
}
