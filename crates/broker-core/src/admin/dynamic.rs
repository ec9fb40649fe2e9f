//! Dynamic nodes come with an attach and go with their link, their connection or a crash.
//!
//! Invariant: after each call no dynamic node is there whose client has disconnected, or whose policy says that it has ended.
//! A refused request has created nothing.

use std::collections::BTreeSet;

use super::{entities::EntityAdmin, removal::EntityRemoval};
use crate::{
    AttachError, ClientId, EntityError, EntitySettings, LinkId, Output, QueueId,
    call::Cx,
    entity::{
        dynamic::{DynamicNode, is_dynamic_name},
        name,
    },
    namespace::Namespace,
};

/// Creates and deletes dynamic nodes.
#[derive(Debug)]
pub(crate) struct DynamicNodeAdmin<'a> {
    state: &'a mut Namespace,
}

impl<'a> DynamicNodeAdmin<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }

    /// Creates a node for the client of the call.
    pub(crate) fn create(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        node: &DynamicNode,
    ) -> Result<(), AttachError> {
        let settings = EntitySettings::default();
        let queue = EntityAdmin::of(&mut self.state.messages)
            .create_named(cx, node.name().into(), node.kind, settings)
            .map_err(|error| match error {
                EntityError::LimitReached { what, limit } => AttachError::LimitReached { what, limit },
                error => AttachError::NotCreated(error),
            })?;
        self.state.messages.entities.dynamic.insert(queue, cx.client, node.lifetime);
        Ok(())
    }

    /// Deletes a node whose link was refused after all.
    pub(crate) fn delete_without_link(&mut self, cx: &mut Cx<'_, impl Output>, link: LinkId, node: &str) {
        let is_open =
            self.state.links.clients.get(&cx.client).is_some_and(|client| client.links.contains_key(&link));
        if !is_open {
            self.delete(cx, node);
        }
    }

    /// The link that asked for a node of this client no longer exists.
    pub(crate) fn release(&mut self, cx: &mut Cx<'_, impl Output>, node: &str) {
        let Some(queue) = self.state.messages.entities.names.get(&name::key(node)).copied() else { return };
        if self.state.messages.entities.dynamic.owner(queue) != Some(cx.client) {
            return;
        }
        self.state.messages.entities.dynamic.set_orphaned(queue);
        cx.watch_stores();
        self.end_if_due(cx, queue);
    }

    /// Ends those nodes whose last link or message has gone from one of these stores.
    pub(crate) fn end_due(&mut self, cx: &mut Cx<'_, impl Output>, changed: &BTreeSet<QueueId>) {
        for store in changed {
            let main = self.state.main_of(*store).map(|entity| &entity.definition);
            // Of a subscription that is gone its topic is among them.
            let node = main.map(|definition| definition.topic.unwrap_or(definition.stores.queue));
            if let Some(node) = node {
                self.end_if_due(cx, node);
            }
        }
    }

    fn end_if_due(&mut self, cx: &mut Cx<'_, impl Output>, node: QueueId) {
        let Some(policy) = self.state.messages.entities.dynamic.policy_of_orphan(node) else { return };
        let stores = self.state.messages.entities.parts(node);
        let stores = || stores.iter().filter_map(|id| self.state.store(*id));
        let has_links = stores().any(|store| !store.links.attached.is_empty());
        let has_messages = stores().any(|store| store.entity().is_some() && store.slots.len() > 0);
        if policy.ends(has_links, has_messages)
            && let Some(name) = self.state.main_of(node).map(|entity| entity.definition.name.clone())
        {
            self.delete(cx, &name);
        }
    }

    /// Deletes the nodes of a client that has disconnected.
    pub(crate) fn delete_of_client(&mut self, cx: &mut Cx<'_, impl Output>, client: ClientId) {
        for node in self.state.messages.entities.dynamic.of_client(client) {
            if let Some(name) = self.state.main_of(node).map(|entity| entity.definition.name.clone()) {
                self.delete(cx, &name);
            }
        }
    }

    /// Deletes the nodes of an earlier start of the broker, whose connections are gone.
    pub(crate) fn delete_of_earlier_start(&mut self, cx: &mut Cx<'_, impl Output>) {
        let names = &self.state.messages.entities.names;
        let nodes: Vec<Box<str>> =
            names.keys().filter(|name| is_dynamic_name(name)).map(Clone::clone).collect();
        for name in nodes {
            // The subscriptions of a topic go with it.
            self.delete(cx, &name);
        }
    }

    fn delete(&mut self, cx: &mut Cx<'_, impl Output>, name: &str) {
        // Nothing is left to do if it is not there any more.
        let _done = EntityRemoval::of(self.state).delete_entity(cx, name, None);
    }

    /// Refuses a receiver of another client: only the owner of a dynamic node may receive from it.
    pub(crate) fn check_receiver(&self, client: ClientId, store: QueueId) -> Result<(), AttachError> {
        let Some(definition) = self.state.main_of(store).map(|entity| &entity.definition) else {
            return Ok(());
        };
        let node = definition.topic.unwrap_or(definition.stores.queue);
        match self.state.messages.entities.dynamic.owner(node) {
            Some(owner) if owner != client => Err(AttachError::NotOwner(definition.name.clone())),
            _ => Ok(()),
        }
    }
}
