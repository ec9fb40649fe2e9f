//! Creating, changing and deleting namespaces.
//!
//! Invariant: a change is one record, so after a crash it is there whole or not at all; an answer waits until the record
//! is kept for good, as the answer of an entity does.

use broker_core::{
    AuthorizationRule, ClientId, Effect, NamespaceDefinition, NamespaceError, NamespaceSettings,
    NamespaceSlot, NamespaceState, Ticket, Timestamp, namespace_key,
};

use super::{
    NamespaceId,
    registry::{Namespace, Namespaces},
};
use crate::core_output::NodeOutput;

/// Most keys of one namespace that interfaces make (Microsoft Learn, "Service Bus quotas").
const KEYS_MAX: usize = 12;

/// A change of the list of namespaces.
#[derive(Clone, Debug)]
pub enum NamespaceCommand {
    /// Give the namespace these properties; create it where it is missing.
    Put {
        name: Box<str>,
        settings: NamespaceSettings,
        /// Random id of the namespace, should it be created.
        uid: u128,
        /// Refuse it where the namespace exists.
        only_create: bool,
    },
    /// Give the namespace this key, in place of the one with its name.
    PutKey {
        name: Box<str>,
        key: Box<AuthorizationRule>,
    },
    RemoveKey {
        name: Box<str>,
        key: Box<str>,
    },
    /// Delete the namespace with all that it holds. The answer comes when it may not be used any more; what it held goes
    /// in bounded steps.
    Delete {
        name: Box<str>,
    },
}

/// A client that asks for a change, and its own number for that.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceRequest {
    pub client: ClientId,
    pub ticket: Ticket,
}

/// Changes the list of namespaces.
pub(crate) struct NamespaceAdmin<'a> {
    pub(crate) namespaces: &'a mut Namespaces,
    pub(crate) out: &'a mut NodeOutput,
    pub(crate) now: Timestamp,
}

impl NamespaceAdmin<'_> {
    /// Makes a change and answers it.
    pub(crate) fn change(&mut self, request: NamespaceRequest, command: NamespaceCommand) {
        let ticket = request.ticket;
        let effect = match self.changed(command) {
            Ok((definition, is_new)) => {
                Effect::NamespaceDone { ticket, definition: Box::new(definition), is_new }
            }
            Err(error) => Effect::NamespaceRefused { ticket, error },
        };
        self.out.outbox.push(NamespaceId::DEFAULT, request.client, effect);
    }

    fn changed(&mut self, command: NamespaceCommand) -> Result<(NamespaceDefinition, bool), NamespaceError> {
        match command {
            NamespaceCommand::Put { name, settings, uid, only_create } => {
                self.check_hostnames(&name, &settings)?;
                match self.slot_of(&name)? {
                    None => self.create(name, settings, uid).map(|created| (created, true)),
                    Some(_) if only_create => Err(NamespaceError::AlreadyExists(name)),
                    Some(slot) => self.update(slot, |definition| {
                        definition.settings = settings;
                        Ok(())
                    }),
                }
            }
            NamespaceCommand::PutKey { name, key } => {
                let slot = self.existing(&name)?;
                self.update(slot, |definition| put_key(definition, *key))
            }
            NamespaceCommand::RemoveKey { name, key } => {
                let slot = self.existing(&name)?;
                self.update(slot, |definition| remove_key(definition, &key))
            }
            NamespaceCommand::Delete { name } => self.delete(&name),
        }
    }

    fn slot_of(&self, name: &str) -> Result<Option<NamespaceSlot>, NamespaceError> {
        Ok(self.namespaces.slot_of(&namespace_key(name)?))
    }

    fn existing(&self, name: &str) -> Result<NamespaceSlot, NamespaceError> {
        self.slot_of(name)?.ok_or_else(|| NamespaceError::NotFound(name.into()))
    }

    /// A host name leads to one namespace, and so does the first label of one.
    fn check_hostnames(&self, name: &str, settings: &NamespaceSettings) -> Result<(), NamespaceError> {
        let key = namespace_key(name)?;
        for hostname in &settings.hostnames {
            let owner = self.namespaces.listing(hostname).map(|namespace| &namespace.definition);
            let owner = owner.filter(|owner| !owner.name.eq_ignore_ascii_case(&key));
            if let Some(owner) = owner {
                return Err(NamespaceError::Hostname {
                    hostname: hostname.clone(),
                    namespace: owner.name.clone(),
                });
            }
        }
        Ok(())
    }

    fn create(
        &mut self,
        name: Box<str>,
        settings: NamespaceSettings,
        uid: u128,
    ) -> Result<NamespaceDefinition, NamespaceError> {
        self.out.check_memory()?;
        let now = self.now;
        let full = NamespaceError::Full { limit: u64::from(u16::MAX) + 1 };
        let slot = self.namespaces.free_slot().ok_or(full)?;
        let definition = NamespaceDefinition {
            slot,
            uid,
            name,
            state: NamespaceState::Active,
            settings,
            keys: Vec::new(),
            created_at: now,
            updated_at: now,
        };
        self.namespaces.enter(definition.clone(), None);
        self.namespaces.note_used(slot);
        if let Some(namespace) = self.namespaces.in_slot(slot) {
            namespace.write(self.out);
        }
        self.namespaces.note_change(definition.clone(), self.out);
        Ok(definition)
    }

    /// Changes a definition; one that is as it was is not recorded again.
    fn update(
        &mut self,
        slot: NamespaceSlot,
        change: impl FnOnce(&mut NamespaceDefinition) -> Result<(), NamespaceError>,
    ) -> Result<(NamespaceDefinition, bool), NamespaceError> {
        let Some(namespace) = self.namespaces.in_slot(slot) else {
            return Err(NamespaceError::NotFound(Box::default()));
        };
        if namespace.definition.state == NamespaceState::Deleting {
            return Err(NamespaceError::Deleting(namespace.definition.name.clone()));
        }
        let mut definition = namespace.definition.clone();
        change(&mut definition)?;
        if definition == namespace.definition {
            return Ok((definition, false));
        }
        definition.updated_at = self.now;
        let record = namespace.record;
        self.namespaces.enter(definition.clone(), record);
        self.namespaces.note_used(slot);
        if let Some(namespace) = self.namespaces.in_slot(slot) {
            namespace.write(self.out);
        }
        self.namespaces.note_change(definition.clone(), self.out);
        Ok((definition, false))
    }

    fn delete(&mut self, name: &str) -> Result<(NamespaceDefinition, bool), NamespaceError> {
        let slot = self.existing(name)?;
        if slot == NamespaceSlot::DEFAULT {
            return Err(NamespaceError::Default);
        }
        let deleted = self.update(slot, |definition| {
            definition.state = NamespaceState::Deleting;
            Ok(())
        });
        if let Some(Namespace { core, definition, .. }) = self.namespaces.in_slot(slot) {
            core.drop_deferred(self.out);
            let weight = definition.settings.weight;
            self.namespaces.schedule.make_ready(slot, weight);
        }
        deleted
    }
}

fn put_key(definition: &mut NamespaceDefinition, key: AuthorizationRule) -> Result<(), NamespaceError> {
    if let Some(place) = definition.keys.iter_mut().find(|other| other.name == key.name) {
        *place = AuthorizationRule { created_at: place.created_at, ..key };
        return Ok(());
    }
    if definition.keys.len() >= KEYS_MAX {
        let namespace = definition.name.clone();
        return Err(NamespaceError::TooManyKeys { namespace, limit: KEYS_MAX as u64 });
    }
    definition.keys.push(key);
    Ok(())
}

fn remove_key(definition: &mut NamespaceDefinition, key: &str) -> Result<(), NamespaceError> {
    let Some(place) = definition.keys.iter().position(|other| &*other.name == key) else {
        return Err(NamespaceError::NoKey { namespace: definition.name.clone(), key: key.into() });
    };
    definition.keys.remove(place);
    Ok(())
}
