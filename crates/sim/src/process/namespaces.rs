//! The namespaces of the process: those that a start finds or creates, and the accounts of all.
//!
//! Invariant: a namespace whose creation was answered is there after every start, until it is to be deleted.

use broker_core::{
    Batch, DEFAULT_NAMESPACE, NamespaceDefinition, NamespaceRecord, NamespaceSettings, NamespaceState,
};
use broker_node::{NamespaceCommand, NamespaceId, Node};

use super::Process;

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

    /// Command that creates it where it is missing.
    pub(crate) fn put(&self) -> NamespaceCommand {
        let settings = NamespaceSettings::default();
        NamespaceCommand::Put { name: self.name.clone(), settings, uid: self.uid, only_create: false }
    }
}

impl Process {
    /// The namespace with this name.
    pub(crate) fn namespace(&self, name: &str) -> Option<&NamespaceDefinition> {
        let mut all = self.node.as_ref()?.namespaces();
        let found = all.find(|view| &*view.definition.name == name);
        found.map(|view| view.definition).filter(|_| !self.crossed.is_kept(name))
    }

    /// Its id, if it takes commands.
    pub(crate) fn namespace_id(&self, name: &str) -> Option<NamespaceId> {
        let active = self.namespace(name).filter(|definition| definition.state == NamespaceState::Active);
        active.map(NamespaceId::of)
    }

    /// Right after recovery: what was created is there, whole, and nothing else that nobody knows.
    pub(super) fn check_namespaces(&self, setups: &[NamespaceSetup]) -> Result<(), String> {
        for setup in setups.iter().filter(|setup| setup.was_created) {
            let Some(found) = self.namespace(&setup.name) else {
                return Err(format!("a created namespace survives: {setup:?}"));
            };
            if found.uid != setup.uid || found.state != NamespaceState::Active {
                return Err(format!("a created namespace stays what it is: {setup:?}, {found:?}"));
            }
        }
        let mut all = self.node.iter().flat_map(Node::namespaces);
        match all.find(|view| view.definition.name.starts_with("recovered-")) {
            Some(view) => Err(format!("no records are left without their namespace: {:?}", view.definition)),
            None => Ok(()),
        }
    }

    /// Each namespace counts the bytes of its own records, and no others.
    pub(crate) fn check_accounts(&self) -> Result<(), String> {
        for view in self.node.iter().flat_map(Node::namespaces) {
            let definition = if view.id == NamespaceId::DEFAULT {
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
