//! Links and messages for a node of one kind.
//!
//! Invariant: what is refused here has created nothing and opened nothing.

use std::time::Duration;

use super::entities::EntityAdmin;
use crate::{
    AttachError, Command, EntityError, EntityKind, EntityPath, EntitySettings, LinkId, NodeKind, Output,
    PublishError, SubQueue, Ticket,
    call::Cx,
    entity::{dynamic::is_dynamic_name, name},
};

/// A temporary node is deleted after this time without use: the shortest that Service Bus permits.
const TEMPORARY: Duration = Duration::from_secs(5 * 60);

/// Recipient of the answer to a command that names a node.
#[derive(Clone, Copy)]
pub(crate) enum Asker {
    Sender(LinkId),
    /// Receives from the node itself, so it cannot do with a topic.
    Receiver(LinkId),
    /// Receives from a topic through a subscription of its own.
    Subscriber(LinkId),
    Message(Option<Ticket>),
}

/// Reason for which there is no node of the wanted kind.
pub(crate) enum NoNode {
    /// There is another one.
    WrongKind,
    /// A receiver cannot do with a topic.
    TopicReceive,
    /// It cannot be created.
    NotCreated(EntityError),
}

impl EntityAdmin<'_> {
    /// Creates the node where it is missing and may be created.
    pub(crate) fn meet_kind(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        kind: NodeKind,
        asker: Asker,
        path: &EntityPath,
        auto_create: bool,
    ) -> Result<(), NoNode> {
        if path.sub_queue != SubQueue::Main {
            return Ok(());
        }
        if let Some(found) = self.messages.resolve(path).and_then(|id| self.messages.entities.kind_of(id)) {
            return if kind.is_met_by(found) { Ok(()) } else { Err(NoNode::WrongKind) };
        }
        if matches!(asker, Asker::Receiver(_)) && kind.entity() == EntityKind::Topic {
            return Err(NoNode::TopicReceive);
        }
        if !auto_create || name::split_subscription(&path.entity).is_some() || is_dynamic_name(&path.entity) {
            // The command itself finds that it is missing.
            return Ok(());
        }
        let mut settings: EntitySettings = self.messages.config.auto_create.clone();
        if kind.is_temporary() {
            settings.auto_delete_on_idle = Some(TEMPORARY);
        }
        self.create_entity(cx, &path.entity, kind.entity(), settings).map_err(NoNode::NotCreated)
    }
}

/// The node that a command names, the recipient of its answer, and whether the node may be created.
pub(crate) fn asked_of(command: &Command) -> Option<(Asker, &EntityPath, bool)> {
    match command {
        Command::OpenProducer { producer, path, auto_create } => {
            Some((Asker::Sender(*producer), path, *auto_create))
        }
        Command::OpenConsumer { consumer, path, auto_create, .. } => {
            Some((Asker::Receiver(*consumer), path, *auto_create))
        }
        Command::OpenSubscriber { consumer, path, auto_create, .. } => {
            Some((Asker::Subscriber(*consumer), path, *auto_create))
        }
        Command::PublishTo { path, auto_create, ticket, .. } => {
            Some((Asker::Message(*ticket), path, *auto_create))
        }
        Command::Enlist { command, .. } => asked_of(command),
        _ => None,
    }
}

pub(crate) fn attach_error(path: EntityPath, asked: NodeKind, why: NoNode) -> AttachError {
    match why {
        NoNode::WrongKind => AttachError::WrongKind { entity: path.entity, asked },
        NoNode::TopicReceive => AttachError::TopicReceive(path.entity),
        NoNode::NotCreated(EntityError::InvalidName(name)) => AttachError::InvalidName(name),
        NoNode::NotCreated(EntityError::LimitReached { what, limit }) => {
            AttachError::LimitReached { what, limit }
        }
        NoNode::NotCreated(error) => AttachError::NotCreated(error),
    }
}

pub(crate) fn publish_error(path: EntityPath, asked: NodeKind, why: NoNode) -> PublishError {
    match why {
        NoNode::WrongKind => PublishError::WrongKind { entity: path.entity, asked },
        NoNode::TopicReceive => PublishError::NotFound(path.entity),
        NoNode::NotCreated(error) => PublishError::not_created(&path.entity, error),
    }
}
