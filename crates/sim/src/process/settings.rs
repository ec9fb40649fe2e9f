//! Settings that a shard was given for its namespaces, what they promise for commands, and planted faults of them.
//!
//! Invariant: a namespace that has as many bytes as it may keeps them until some are freed: sends write nothing.

use std::collections::{BTreeMap, VecDeque};

use broker_core::{
    Batch, Command, NamespaceDefinition, NamespaceLimit, NamespaceLimits, NamespaceSettings, NamespaceState,
    Ticket, Timestamp,
};
use broker_node::{NamespaceCommand, NamespaceId, Node};

use crate::plan::{PlantedFault, SETUP, Topology};

/// The settings of a shard's namespaces, in the order in which the node was given them.
#[derive(Debug, Default)]
pub(super) struct GivenSettings {
    by_name: BTreeMap<Box<str>, NamespaceSettings>,
    fault: Option<PlantedFault>,
    /// For a hold that forgets the messages of the first queue: how that is created.
    first_queue: Vec<Command>,
    /// Changes that are told before they are durable.
    changes: VecDeque<NamespaceDefinition>,
}

/// The faults that may be planted here.
const FAULTS: [PlantedFault; 5] = [
    PlantedFault::SettingsToldEarly,
    PlantedFault::HoldForgets,
    PlantedFault::LimitsIgnored,
    PlantedFault::LimitStopsReceives,
    PlantedFault::LimitsOfAnother,
];

/// Bytes of a namespace before a batch that is to write nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct FullNamespace {
    bytes: u64,
    limit: u64,
}

impl GivenSettings {
    /// Plants the fault of the plan.
    pub(super) fn plant(&mut self, topology: &Topology) {
        self.fault = FAULTS.into_iter().find(|fault| !topology.is_free_of(*fault));
        let delete =
            Command::DeleteEntity { name: topology.address(0).into(), expected: None, ticket: Ticket(0) };
        self.first_queue =
            [Command::Connect, delete].into_iter().chain(topology.create(0, Ticket(0))).collect();
        self.first_queue.push(Command::Disconnect);
    }

    /// The node has the settings that its journal kept.
    pub(super) fn recovered(&mut self, node: &Node) {
        let all = node.namespaces().map(|view| view.definition);
        self.by_name = all.map(|definition| (definition.name.clone(), definition.settings.clone())).collect();
    }

    /// The node is gone.
    pub(super) fn forget(&mut self) {
        self.changes.clear();
    }

    /// Notes a change; gives what the node is to be told instead.
    pub(super) fn give(
        &mut self,
        node: &mut Node,
        now: Timestamp,
        mut command: NamespaceCommand,
    ) -> Vec<NamespaceCommand> {
        let NamespaceCommand::Put { name, settings, .. } = &mut command else { return vec![command] };
        let found = node.namespaces().find(|view| view.definition.name == *name);
        let found = found.map(|view| (view.id, view.definition.clone()));
        let Some((id, before)) = found.filter(|(_, it)| it.state == NamespaceState::Active) else {
            self.by_name.insert(name.clone(), settings.clone());
            return vec![command];
        };
        self.by_name.insert(name.clone(), settings.clone());
        let limits = settings.limits;
        match self.fault {
            Some(PlantedFault::LimitsIgnored) => {
                // The node may find that nothing has changed, and tell nothing.
                self.changes.push_back(NamespaceDefinition { settings: settings.clone(), ..before });
                settings.limits = NamespaceLimits::default();
            }
            Some(PlantedFault::SettingsToldEarly) => {
                self.changes.push_back(NamespaceDefinition { settings: settings.clone(), ..before });
            }
            Some(PlantedFault::HoldForgets) if settings.held => {
                let commands = self.first_queue.clone();
                node.handle_batch(now, id, Batch { client: SETUP, commands });
            }
            Some(PlantedFault::LimitsOfAnother) => {
                let other = node.namespaces().find(|view| view.id != id);
                let other = other.map(|view| view.definition.clone());
                return std::iter::once(command).chain(other.map(|other| limited(other, limits))).collect();
            }
            _ => {}
        }
        vec![command]
    }

    /// A change as it is told: with the settings that were given.
    pub(super) fn retell(&self, mut definition: NamespaceDefinition) -> NamespaceDefinition {
        let forges = matches!(self.fault, Some(PlantedFault::LimitsIgnored | PlantedFault::LimitsOfAnother));
        if let Some(settings) = self.by_name.get(&definition.name).filter(|_| forges) {
            definition.settings = settings.clone();
        }
        definition
    }

    /// Changes that are told too early.
    pub(super) fn take_changes(&mut self) -> VecDeque<NamespaceDefinition> {
        std::mem::take(&mut self.changes)
    }

    /// Before a batch: whether its namespace is full, and the batch brings nothing but sends.
    pub(super) fn before(&self, node: &Node, id: NamespaceId, batch: &Batch) -> Option<FullNamespace> {
        let sends = |command: &Command| {
            matches!(
                command,
                Command::Publish { .. } | Command::PublishBatch { .. } | Command::PublishTo { .. }
            )
        };
        // Commands that waited before it may be handled with it.
        if node.has_deferred() || node.has_reading() || !batch.commands.iter().all(sends) {
            return None;
        }
        self.full(node, id)
    }

    /// Whether a namespace has as many bytes as it may.
    fn full(&self, node: &Node, id: NamespaceId) -> Option<FullNamespace> {
        let view = node.namespace(id)?;
        let limit = self.by_name.get(&view.definition.name)?.limits.get(NamespaceLimit::Bytes)?;
        let bytes = view.live_bytes;
        (bytes >= limit).then_some(FullNamespace { bytes, limit })
    }

    /// The planted fault: nothing is delivered while the namespace is full.
    pub(super) fn starve(&self, node: &Node, id: NamespaceId, batch: &mut Batch) {
        if self.fault == Some(PlantedFault::LimitStopsReceives) && self.full(node, id).is_some() {
            batch.commands.retain(|command| !matches!(command, Command::Credit { .. }));
        }
    }
}

impl FullNamespace {
    /// After the batch.
    pub(super) fn check(self, node: &Node, id: NamespaceId) -> Result<(), String> {
        let Self { bytes, limit } = self;
        match node.namespace(id).map(|view| view.live_bytes) {
            Some(now) if now != bytes => Err(format!(
                "a namespace at its limit takes no sends: it may have {limit} bytes, had {bytes}, and has {now}"
            )),
            _ => Ok(()),
        }
    }
}

fn limited(definition: NamespaceDefinition, limits: NamespaceLimits) -> NamespaceCommand {
    let NamespaceDefinition { name, uid, settings, .. } = definition;
    let settings = NamespaceSettings { limits, ..settings };
    NamespaceCommand::Put { name, settings, uid, only_create: false }
}
