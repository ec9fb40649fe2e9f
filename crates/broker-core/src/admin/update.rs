//! Entities change: their properties, and with them what their links may do.
//!
//! Invariant: a refused change has changed nothing. No link stands open for what its entity forbids.

use std::time::Duration;

use super::entities::EntityAdmin;
use crate::{
    AttachError, Effect, EntityError, EntitySettings, EntityVersion, Output, QueueId,
    call::Cx,
    entity::{name, status::Use},
    link::{attachments::Attachments, client::Link},
    namespace::Namespace,
    record::Definition,
};

/// Changes entities.
#[derive(Debug)]
pub(crate) struct EntityUpdates<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> EntityUpdates<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl EntityUpdates<'_> {
    pub(crate) fn update_entity(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        name: &str,
        mut settings: EntitySettings,
        expected: Option<EntityVersion>,
    ) -> Result<(), EntityError> {
        let missing = || EntityError::NotFound(name.into());
        let queue = *self.state.messages.entities.names.get(&name::key(name)).ok_or_else(missing)?;
        let entity = self.state.main_of(queue).ok_or_else(missing)?;
        if expected.is_some_and(|expected| expected != entity.definition.version()) {
            return Err(EntityError::Changed(entity.definition.name.clone()));
        }
        // A subscription has the partitions of its topic, and a record of an earlier version may have other flags.
        settings.take_foreign_flags(entity.definition.kind, &entity.definition.settings);
        let mut settings = settings.check()?;
        self.state.messages.config.profile.check(entity.definition.kind, &mut settings)?;
        self.state.messages.entities.check_forwards(
            &entity.definition.name,
            entity.definition.kind,
            &mut settings,
        )?;
        settings.check_update(entity.definition.kind, &entity.definition.settings)?;
        settings.status.check(entity.definition.kind)?;
        let has_other_keys = settings.authorization != entity.definition.settings.authorization;
        let accessed_at = self.state.messages.entities.accessed_at(&entity.definition);
        // Two updates never have the same time, because clients recognise a version of an entity by it.
        let updated_at = cx.now.max(entity.definition.updated_at.after(Duration::from_millis(1)));
        let definition = Definition { settings, updated_at, accessed_at, ..entity.definition.clone() };
        cx.out.release(entity.position, entity.length);
        EntityAdmin::of(&mut self.state.messages).adopt(definition, cx.out);
        self.state.messages.entities.mark_used(cx, queue);
        if has_other_keys {
            self.state.messages.entities.tell_keys(cx, queue);
        }
        self.start_forwarding(cx, queue);
        // A shorter window may have passed already.
        self.state.messages.entities.rearm(queue);
        self.close_forbidden(cx, queue);
        Ok(())
    }

    /// The properties of an entity have changed. Receivers of a store that forwards from now on are detached, and its
    /// messages are forwarded.
    fn start_forwarding(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let Some(entity) = self.state.main_of(queue) else { return };
        let entity_name = entity.definition.name.clone();
        for id in entity.definition.stores.all() {
            let Some(store) =
                self.state.messages.entities.stores.get_mut(&id).filter(|store| store.forwards.is_some())
            else {
                continue;
            };
            let links: Vec<_> = store.links.attached.iter().copied().collect();
            self.state.messages.entities.agenda.wake(store);
            for (client, link) in links {
                let made = self.state.links.clients.get(&client).and_then(|client| client.links.get(&link));
                let effect = match made {
                    Some(Link::Consumer { .. }) => Effect::EntityForwards { link },
                    // It waits for a session, and never was open.
                    Some(Link::Acceptor { .. }) => {
                        let error = AttachError::Forwards(entity_name.clone());
                        Effect::AttachRefused { link, error }
                    }
                    Some(Link::Producer { .. }) | None => continue,
                };
                Attachments::of(self.state).close_link(cx, client, link);
                cx.tell(client, effect);
            }
        }
    }

    /// Detaches the links that the status of an entity forbids.
    fn close_forbidden(&mut self, cx: &mut Cx<'_, impl Output>, queue: QueueId) {
        let Some(entity) = self.state.main_of(queue) else { return };
        let (stores, status) = (entity.definition.stores, entity.definition.settings.status);
        let mut forbidden = Vec::new();
        for id in stores.all() {
            let links = self.state.store(id).into_iter().flat_map(|store| &store.links.attached);
            forbidden.extend(links.filter(|(client, link)| {
                let made = self.state.links.clients.get(client).and_then(|client| client.links.get(link));
                made.is_some_and(|made| match made {
                    Link::Producer { .. } => !status.allows(Use::Send),
                    Link::Consumer { .. } | Link::Acceptor { .. } => !status.allows(Use::Receive),
                })
            }));
        }
        for (client, link) in forbidden {
            let made = self.state.links.clients.get(&client).and_then(|client| client.links.get(&link));
            let effect =
                if let (Some(Link::Acceptor { .. }), Some(entity)) = (made, self.state.main_of(queue)) {
                    // It never was open.
                    let error = AttachError::Disabled(entity.definition.name.clone());
                    Effect::AttachRefused { link, error }
                } else {
                    Effect::EntityDisabled { link }
                };
            Attachments::of(self.state).close_link(cx, client, link);
            cx.tell(client, effect);
        }
    }
}
