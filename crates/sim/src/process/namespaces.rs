//! The namespaces of the process: those that a start finds or creates, the shards in which they live, and the accounts of
//! all.
//!
//! Invariant: a namespace whose creation was answered is there after every start, in one shard, until it is to be deleted.

use std::collections::BTreeMap;

use broker_core::{
    Batch, DEFAULT_NAMESPACE, NamespaceDefinition, NamespaceRecord, NamespaceSettings, NamespaceState,
};
use broker_node::{NamespaceCommand, NamespaceId, Node};

use super::{Process, Residence, Shard};

/// A namespace that a start finds or creates, and what it asks there.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceSetup {
    pub(crate) name: Box<str>,
    /// Random id, should it be created.
    pub(crate) uid: u128,
    /// Its creation was answered: it must be there.
    pub(crate) was_created: bool,
    pub(crate) batch: Batch,
}

impl NamespaceSetup {
    /// The default namespace.
    pub(crate) fn of_default(batch: Batch) -> Self {
        Self { name: DEFAULT_NAMESPACE.into(), uid: 0, was_created: true, batch }
    }

    /// Command that creates it where it is missing, with the settings that it has where it is there.
    pub(crate) fn put(&self, found: Option<&NamespaceDefinition>) -> NamespaceCommand {
        let settings = found.map_or_else(NamespaceSettings::default, |found| found.settings.clone());
        NamespaceCommand::Put { name: self.name.clone(), settings, uid: self.uid, only_create: false }
    }
}

impl Process {
    /// The namespace with this name.
    pub(crate) fn namespace(&self, name: &str) -> Option<&NamespaceDefinition> {
        self.shards.iter().find_map(|shard| shard.namespace(name))
    }

    /// Its shard.
    pub(crate) fn shard_of(&self, name: &str) -> Option<usize> {
        self.shards.iter().position(|shard| shard.namespace(name).is_some())
    }

    /// Its shard and its id, if it takes commands.
    pub(crate) fn residence(&self, name: &str) -> Option<Residence> {
        let active = self.namespace(name).filter(|definition| definition.state == NamespaceState::Active)?;
        Some(Residence { shard: self.shard_of(name)?, id: NamespaceId::of(active) })
    }

    /// Bytes that it uses.
    pub(crate) fn live_bytes(&self, residence: Residence) -> Option<u64> {
        let node = self.shards.get(residence.shard)?.node.as_ref()?;
        Some(node.namespace(residence.id)?.live_bytes)
    }

    /// The shard for a new namespace: that with the fewest connections, and among those with the fewest namespaces. The
    /// number of connections is given for each shard; `created` namespaces of this start are about to come.
    pub(crate) fn least_loaded(&self, connections: &[usize], created: &[usize]) -> usize {
        let load = |shard: &Shard| {
            let connections = connections.get(shard.number).copied().unwrap_or_default();
            let more = created.iter().filter(|number| **number == shard.number).count();
            (connections, shard.namespaces().count() + more)
        };
        self.shards.iter().min_by_key(|shard| load(shard)).map_or(0, |shard| shard.number)
    }

    /// Right after recovery: what was created is there, whole, once, and nothing else that nobody knows.
    pub(super) fn check_namespaces(&self, setups: &[NamespaceSetup]) -> Result<(), String> {
        self.check_shards()?;
        for setup in setups.iter().filter(|setup| setup.was_created) {
            let Some(found) = self.namespace(&setup.name) else {
                return Err(format!("a created namespace survives: {setup:?}"));
            };
            if found.uid != setup.uid || found.state != NamespaceState::Active {
                return Err(format!("a created namespace stays what it is: {setup:?}, {found:?}"));
            }
        }
        let mut all = self.shards.iter().flat_map(Shard::namespaces);
        match all.find(|view| view.definition.name.starts_with("recovered-")) {
            Some(view) => Err(format!("no records are left without their namespace: {:?}", view.definition)),
            None => Ok(()),
        }
    }

    /// Each namespace is in one shard.
    pub(crate) fn check_shards(&self) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for shard in &self.shards {
            for view in shard.namespaces() {
                let name = &view.definition.name;
                if let Some(other) = found.insert(name.clone(), shard.number) {
                    let number = shard.number;
                    return Err(format!(
                        "a namespace lives in one shard: `{name}` is in {other} and {number}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Each namespace counts the bytes of its own records, and no others.
    pub(crate) fn check_accounts(&self) -> Result<(), String> {
        let nodes = self.shards.iter().filter_map(|shard| shard.node.as_ref());
        for view in nodes.flat_map(Node::namespaces) {
            // Nobody has recorded a default namespace that is as it always was.
            let definition = if *view.definition == NamespaceDefinition::of_default() {
                0
            } else {
                NamespaceRecord::encode(view.definition).len() as u64
            };
            let counted =
                view.core.live_records().map(|(_, length)| u64::from(length)).sum::<u64>() + definition;
            if counted != view.live_bytes {
                let (name, bytes) = (&view.definition.name, view.live_bytes);
                return Err(format!("`{name}` has {counted} live bytes, and counts {bytes}"));
            }
        }
        Ok(())
    }
}
